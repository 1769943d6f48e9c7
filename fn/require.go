package fn

import (
	"encoding/json"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	kjson "sigs.k8s.io/json"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Names of what the function requires of Crossplane.
const (
	requirementCRD        = "kausality.io/allowancepolicy-crd"
	requirementPolicies   = "kausality.io/allowancepolicies"
	requirementUpgradeCRD = "kausality.io/upgradeallowance-crd"
	requirementUpgrades   = "kausality.io/upgradeallowances"
	requirementRevision   = "kausality.io/composition-revision"
	requirementFunctions  = "kausality.io/function-revisions"

	policyCRD  = "allowancepolicies." + v1alpha1.Group
	upgradeCRD = "upgradeallowances." + v1alpha1.Group
)

// require of Crossplane what decides beside the request: the policies of the
// cluster, and the revisions that upgrades are told by. What is required must be
// so on every run (KR-09-08).
func require(cfg config, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) {
	selectors := map[string]*fnv1.ResourceSelector{}
	if cfg.fetch {
		for kind, f := range map[string]fetchable{
			"AllowancePolicy":  {requirementCRD, requirementPolicies, policyCRD},
			"UpgradeAllowance": {requirementUpgradeCRD, requirementUpgrades, upgradeCRD},
		} {
			f.require(req, kind, cfg.labels, selectors)
		}
	}
	if upgrades, _ := required(req, requirementUpgrades); len(cfg.upgrades)+len(upgrades) > 0 {
		requireRevisions(req, selectors)
	}
	if len(selectors) == 0 {
		return
	}
	rsp.Requirements = &fnv1.Requirements{}
	if request.HasCapability(req, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES) {
		rsp.Requirements.Resources = selectors
		return
	}
	// A Crossplane that does not say what it can knows the older field at least.
	rsp.Requirements.ExtraResources = selectors //nolint:staticcheck // For Crossplane before 2.2.
}

// required items under a name; found is false where Crossplane did not look.
func required(req *fnv1.RunFunctionRequest, name string) (items []*fnv1.Resource, found bool) {
	r, ok := req.GetRequiredResources()[name]
	if !ok {
		r, ok = req.GetExtraResources()[name] //nolint:staticcheck // For Crossplane before 2.2.
	}
	return r.GetItems(), ok
}

// fetchable is a kind of ours in the cluster, which need not be installed: its
// CRD is required by name first, and only where that is there its objects.
// Crossplane fails the whole pipeline where it cannot list a kind (KR-09-08).
type fetchable struct {
	// names of the two requirements, and that of the CRD.
	crdRequirement, requirement, crd string
}

// require asks Crossplane for the CRD first, and for the objects once it exists (KR-09-08).
func (f fetchable) require(req *fnv1.RunFunctionRequest, kind string, labels map[string]string, into map[string]*fnv1.ResourceSelector) {
	into[f.crdRequirement] = &fnv1.ResourceSelector{
		ApiVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition",
		Match: &fnv1.ResourceSelector_MatchName{MatchName: f.crd},
	}
	if crd, _ := required(req, f.crdRequirement); len(crd) > 0 {
		into[f.requirement] = &fnv1.ResourceSelector{
			ApiVersion: v1alpha1.GroupVersion.String(), Kind: kind,
			Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}},
		}
	}
}

// items that were fetched; why says what is in the way, "" for nothing.
func (f fetchable) items(req *fnv1.RunFunctionRequest) (items []*fnv1.Resource, why string) {
	crd, asked := required(req, f.crdRequirement)
	items, listed := required(req, f.requirement)
	switch {
	case !asked:
		return nil, "this Crossplane gives functions no required resources"
	case len(crd) == 0:
		return nil, "CustomResourceDefinition " + f.crd + " is not installed"
	case !listed:
		return nil, "they were not fetched"
	}
	return items, ""
}

// into reads an object.
func into(item *fnv1.Resource, o any) error {
	raw, err := json.Marshal(ssa.Object(item.GetResource()))
	if err != nil {
		return err //nolint:wrapcheck // The caller says what it is about.
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, o) //nolint:wrapcheck // The caller says what it is about.
}
