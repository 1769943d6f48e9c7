package policies

import (
	"encoding/json"
	"fmt"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Names of the requirements.
const (
	RequirementCRD          = "kausality.io/allowancepolicy-crd"
	RequirementPolicies     = "kausality.io/allowancepolicies"
	RequirementUpgradeCRD   = "kausality.io/upgradeallowance-crd"
	RequirementUpgrades     = "kausality.io/upgradeallowances"
	RequirementKausalityCRD = "kausality.io/kausality-crd"
	RequirementKausalities  = "kausality.io/kausalities"
	RequirementApprovals    = "kausality.io/approvalpolicies"
	// RequirementClusterApprovals are the ClusterApprovalPolicies.
	RequirementClusterApprovals = "kausality.io/clusterapprovalpolicies"
	RequirementRulesCRD         = "kausality.io/approvalrule-crd"
	RequirementRules            = "kausality.io/approvalrules"
	// RequirementNamespace is followed by the name of a Namespace.
	RequirementNamespace     = "kausality.io/namespace/"
	RequirementConfiguration = "kausality.io/webhook-configuration"
	RequirementRevision      = "kausality.io/composition-revision"
	RequirementFunctions     = "kausality.io/function-revisions"
)

// Requires reports whether a requirement of that name is one of this package.
func Requires(name string) bool { return strings.HasPrefix(name, v1alpha1.Group+"/") }

// fetchable is a kind of policies.
type fetchable struct {
	kind, kinds string
	// crd is the name of its CustomResourceDefinition, and crdRequirement that of its
	// requirement; "" for a kind that is fetched only where Crossplane may read it by the
	// installation's own role.
	crd, crdRequirement string
	requirement         string
	// fault is the format of a note on a policy with an invalid part, by the
	// policy's name and the part.
	fault string
}

// crdKausalities has the annotation that reports what Crossplane may read.
const crdKausalities = v1alpha1.ResourceKausalities + "." + v1alpha1.Group

var (
	allowancePolicies = fetchable{
		kind: v1alpha1.KindAllowancePolicy, kinds: "AllowancePolicies", crd: v1alpha1.ResourceAllowancePolicies + "." + v1alpha1.Group,
		crdRequirement: RequirementCRD, requirement: RequirementPolicies,
		fault: "AllowancePolicy %s: %v; that part of it is ignored",
	}
	upgradeAllowances = fetchable{
		kind: v1alpha1.KindUpgradeAllowance, kinds: "UpgradeAllowances", crd: v1alpha1.ResourceUpgradeAllowances + "." + v1alpha1.Group,
		crdRequirement: RequirementUpgradeCRD, requirement: RequirementUpgrades,
		fault: "UpgradeAllowance %s is ignored: %v",
	}
	approvalPolicies = fetchable{
		kind: v1alpha1.KindApprovalPolicy, kinds: "ApprovalPolicies", requirement: RequirementApprovals,
		fault: "ApprovalPolicy %s: %v; that rule is ignored",
	}
	clusterApprovalPolicies = fetchable{
		kind: v1alpha1.KindClusterApprovalPolicy, kinds: "ClusterApprovalPolicies", requirement: RequirementClusterApprovals,
		fault: "ClusterApprovalPolicy %s: %v; that rule is ignored",
	}
	approvalRules = fetchable{
		kind: v1alpha1.KindApprovalRule, kinds: "ApprovalRules", crd: v1alpha1.ResourceApprovalRules + "." + v1alpha1.Group,
		crdRequirement: RequirementRulesCRD, requirement: RequirementRules, fault: "ApprovalRule %s: %v",
	}
	kausalities = fetchable{
		kind: "Kausality", kinds: "Kausality policies", requirement: RequirementKausalities, fault: "Kausality %s: %v",
	}
)

// Require requires the policies of the cluster, and the revisions by which an upgrade is recognized
// where there is one: revision is the name of the composite's CompositionRevision, "" for none. The same
// requirements must be declared on every run of a step (KR-09-08).
func (s Source) Require(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse, revision string) {
	selectors := map[string]*fnv1.ResourceSelector{}
	if s.Fetch {
		s.require(req, selectors)
	}
	if upgrades, _ := required(req, RequirementUpgrades); revision != "" && len(s.Upgrades)+len(upgrades) > 0 {
		selectors[RequirementRevision] = named("apiextensions.crossplane.io/v1", "CompositionRevision", revision)
		selectors[RequirementFunctions] = labelled("pkg.crossplane.io/v1", "FunctionRevision", nil)
	}
	if len(selectors) == 0 {
		return
	}
	rsp.Requirements = &fnv1.Requirements{}
	if request.HasCapability(req, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES) {
		rsp.Requirements.Resources = selectors
		return
	}
	// A Crossplane that declares no capabilities supports the older field at least.
	rsp.Requirements.ExtraResources = selectors //nolint:staticcheck // For Crossplane before 2.2.
}

// require requires what the cluster configures. Where Crossplane may not read it, the fetch would fail
// the pipeline: an installation's CustomResourceDefinition reports that its role allows that (readable).
func (s Source) require(req *fnv1.RunFunctionRequest, into map[string]*fnv1.ResourceSelector) {
	into[RequirementKausalityCRD] = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", crdKausalities)
	if !readable(req) {
		allowancePolicies.require(req, s.Labels, into)
		upgradeAllowances.require(req, s.Labels, into)
		return
	}
	for _, f := range []fetchable{allowancePolicies, upgradeAllowances, approvalPolicies, clusterApprovalPolicies} {
		into[f.requirement] = labelled(v1alpha1.GroupVersion.String(), f.kind, s.Labels)
	}
	approvalRules.require(req, nil, into) // an installation of an earlier release has no such kind
	into[RequirementKausalities] = labelled(v1alpha1.GroupVersion.String(), kausalities.kind, nil)
	into[RequirementConfiguration] = named("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", v1alpha1.WebhookConfigurationName)
	for _, name := range namespacesOf(req) {
		into[RequirementNamespace+name] = named("v1", "Namespace", name)
	}
}

// readable reports whether the role of an installation allows Crossplane to read all
// that it configures.
func readable(req *fnv1.RunFunctionRequest) bool {
	items, _ := required(req, RequirementKausalityCRD)
	return len(items) > 0 && ssa.AnnotationOf(ssa.Object(items[0].GetResource()), v1alpha1.AnnotationKeyCrossplaneReads) != ""
}

// require requires the CustomResourceDefinition, and the objects once it exists.
func (f fetchable) require(req *fnv1.RunFunctionRequest, labels map[string]string, into map[string]*fnv1.ResourceSelector) {
	into[f.crdRequirement] = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f.crd)
	if crd, _ := required(req, f.crdRequirement); len(crd) > 0 {
		into[f.requirement] = labelled(v1alpha1.GroupVersion.String(), f.kind, labels)
	}
}

func named(apiVersion, kind, name string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
}

// labelled returns a selector of objects by labels; all of a kind for nil labels.
func labelled(apiVersion, kind string, labels map[string]string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind,
		Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}}}
}

// required returns the items under a name; found is false where Crossplane did not look.
func required(req *fnv1.RunFunctionRequest, name string) (items []*fnv1.Resource, found bool) {
	r, ok := req.GetRequiredResources()[name]
	if !ok {
		r, ok = req.GetExtraResources()[name] //nolint:staticcheck // For Crossplane before 2.2.
	}
	return r.GetItems(), ok
}

// items returns the items that were fetched; why is what prevents that, "" for nothing.
func (f fetchable) items(req *fnv1.RunFunctionRequest) (items []*fnv1.Resource, why string) {
	items, listed := required(req, f.requirement)
	if readable(req) && listed {
		return items, ""
	}
	crd, looked := required(req, f.crdRequirement)
	switch {
	case !looked:
		return nil, "this Crossplane gives functions no required resources"
	case len(crd) == 0:
		return nil, "CustomResourceDefinition " + f.crd + " is not installed"
	case !listed:
		return nil, "they were not fetched"
	}
	return items, ""
}

// fetch returns the fetched policies of a kind, compiled: those that do not decode are left out.
func fetch[T, C any, P interface {
	*T
	metav1.Object
}](f fetchable, req *fnv1.RunFunctionRequest, compile func(P) (C, []allowance.RuleError)) (out []C, notes []string) {
	items, why := f.items(req)
	if why != "" {
		return nil, []string{f.kinds + " of the cluster do not count: " + why}
	}
	for _, item := range items {
		p := P(new(T))
		if err := decode(item, p); err != nil {
			notes = append(notes, fmt.Sprintf("cannot read %s %q: %v", f.kind, p.GetName(), err))
			continue
		}
		next, faults := compile(p)
		out = append(out, next)
		for _, fault := range faults {
			notes = append(notes, fmt.Sprintf(f.fault, p.GetName(), fault))
		}
	}
	return out, notes
}

// decode decodes an item into an object.
func decode(item *fnv1.Resource, o any) error {
	raw, err := json.Marshal(ssa.Object(item.GetResource()))
	if err != nil {
		return err //nolint:wrapcheck // The caller adds what it reads.
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, o) //nolint:wrapcheck // The caller adds what it reads.
}
