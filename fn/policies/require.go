package policies

import (
	"cmp"
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
	RequirementPolicies     = "kausality.io/allowancepolicies"
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
	// RequirementComposition and RequirementSources are what the revisions are made of: the Composition, and all Functions.
	RequirementComposition = "kausality.io/composition"
	RequirementSources     = "kausality.io/functions"
)

// Requires reports whether a requirement of that name is one of this package.
func Requires(name string) bool { return strings.HasPrefix(name, v1alpha1.Group+"/") }

// fetchable is a kind of policies.
type fetchable struct {
	kind, kinds, requirement string
	// fault is the format of a note on a policy with an invalid part, by the
	// policy's name and the part.
	fault string
}

// CustomResourceDefinitions that are required by name. That of Kausality policies has the annotation that reports
// what Crossplane may read; an installation of an earlier release has no ApprovalRules.
const (
	crdKausalities   = v1alpha1.ResourceKausalities + "." + v1alpha1.Group
	crdApprovalRules = v1alpha1.ResourceApprovalRules + "." + v1alpha1.Group
)

var (
	allowancePolicies = fetchable{
		kind: v1alpha1.KindAllowancePolicy, kinds: "AllowancePolicies", requirement: RequirementPolicies,
		fault: "AllowancePolicy %s: %v; that part of it is ignored",
	}
	upgradeAllowances = fetchable{
		kind: v1alpha1.KindUpgradeAllowance, kinds: "UpgradeAllowances", requirement: RequirementUpgrades,
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
		kind: v1alpha1.KindApprovalRule, kinds: "ApprovalRules", requirement: RequirementRules, fault: "ApprovalRule %s: %v",
	}
	kausalities = fetchable{
		kind: "Kausality", kinds: "Kausality policies", requirement: RequirementKausalities, fault: "Kausality %s: %v",
	}
)

// Require requires the policies of the cluster, and what composes the composite where that counts: revisions by
// which an upgrade is recognized where there is one, and what they were made of where there is an ApprovalRule.
// The same requirements must be declared on every run of a step (KR-09-08).
func (s Source) Require(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse, p Pipeline) {
	selectors := map[string]*fnv1.ResourceSelector{}
	s.require(req, selectors)
	upgrades, _ := Required(req, RequirementUpgrades)
	rules, _ := Required(req, RequirementRules)
	if p.Revision != "" && len(s.Upgrades)+len(upgrades)+len(rules) > 0 {
		selectors[RequirementRevision] = named("apiextensions.crossplane.io/v1", "CompositionRevision", p.Revision)
		selectors[RequirementFunctions] = labelled("pkg.crossplane.io/v1", "FunctionRevision", nil)
	}
	if p.Revision != "" && len(rules) > 0 {
		selectors[RequirementSources] = labelled("pkg.crossplane.io/v1", "Function", nil)
		if p.Composition != "" {
			selectors[RequirementComposition] = named("apiextensions.crossplane.io/v1", "Composition", p.Composition)
		}
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
// the pipeline. Therefore two objects are required first that report whether it may, and that Crossplane
// reads by its own role (readable).
func (s Source) require(req *fnv1.RunFunctionRequest, into map[string]*fnv1.ResourceSelector) {
	into[RequirementKausalityCRD] = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", crdKausalities)
	into[RequirementConfiguration] = named("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", v1alpha1.WebhookConfigurationName)
	if !readable(req) {
		return
	}
	for _, f := range []fetchable{allowancePolicies, upgradeAllowances, approvalPolicies, clusterApprovalPolicies} {
		into[f.requirement] = labelled(v1alpha1.GroupVersion.String(), f.kind, s.Labels)
	}
	into[RequirementRulesCRD] = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", crdApprovalRules)
	if crd, _ := Required(req, RequirementRulesCRD); len(crd) > 0 {
		into[RequirementRules] = labelled(v1alpha1.GroupVersion.String(), approvalRules.kind, nil)
	}
	into[RequirementKausalities] = labelled(v1alpha1.GroupVersion.String(), kausalities.kind, nil)
	for _, name := range namespacesOf(req) {
		into[RequirementNamespace+name] = named("v1", "Namespace", name)
	}
}

// readable reports whether Crossplane may read all that an installation configures. The policy controller
// reports on the webhook configuration whether the ClusterRole for that exists. Where it reports nothing, the
// CustomResourceDefinition does: it has the annotation if it was installed together with the ClusterRole.
func readable(req *fnv1.RunFunctionRequest) bool {
	crd := single(req, RequirementKausalityCRD)
	if crd == nil {
		return false
	}
	reads := crd.GetAnnotations()[v1alpha1.AnnotationKeyCrossplaneReads]
	if configuration := single(req, RequirementConfiguration); configuration != nil {
		reads = cmp.Or(configuration.GetAnnotations()[v1alpha1.AnnotationKeyCrossplaneReads], reads)
	}
	return reads != "" && reads != v1alpha1.CrossplaneReadsNone
}

func named(apiVersion, kind, name string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
}

// labelled returns a selector of objects by labels; all of a kind for nil labels.
func labelled(apiVersion, kind string, labels map[string]string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind,
		Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}}}
}

// Required returns the items that Crossplane fetched under a name; found is false where it did not look.
func Required(req *fnv1.RunFunctionRequest, name string) (items []*fnv1.Resource, found bool) {
	r, ok := req.GetRequiredResources()[name]
	if !ok {
		r, ok = req.GetExtraResources()[name] //nolint:staticcheck // For Crossplane before 2.2.
	}
	return r.GetItems(), ok
}

// fetch returns the fetched policies of a kind, compiled: those that do not decode are left out.
func fetch[T, C any, P interface {
	*T
	metav1.Object
}](f fetchable, req *fnv1.RunFunctionRequest, compile func(P) (C, []allowance.RuleError)) (out []C, notes []string) {
	items, listed := Required(req, f.requirement)
	if !listed {
		return nil, []string{f.kinds + " of the cluster do not count: they were not fetched"}
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
