package session

import (
	"fmt"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/fn/policies"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Names of the requirements, each followed by what is required.
const (
	// RequirementKind is followed by the name of a CustomResourceDefinition of ProviderConfigs.
	RequirementKind = "kausality.io/aws-kind/"
	// RequirementConfig is followed by a ProviderConfig, as carry.Config writes it.
	RequirementConfig = "kausality.io/aws-config/"
)

// maxShared is how many ProviderConfigs are read in one run.
const maxShared = 16

// Require requires the shared ProviderConfigs. Crossplane fails the pipeline where a required kind is not installed: the kind's
// CustomResourceDefinition is required first. The rights that its RBAC manager gives Crossplane on the kinds of a provider include ProviderConfigs.
func (s Session) Require(req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) {
	if s.value == "" {
		return
	}
	into := rsp.GetRequirements().GetResources()
	if into == nil {
		into = rsp.GetRequirements().GetExtraResources() //nolint:staticcheck // For Crossplane before 2.2.
	}
	if into == nil {
		return
	}
	for i, c := range s.shared(req) {
		if i >= maxShared || !carry.HasChain(c.GroupKind) {
			continue
		}
		into[RequirementKind+crdOf(c)] = selector("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crdOf(c))
		if crd, _ := policies.Required(req, RequirementKind+crdOf(c)); len(crd) > 0 {
			into[RequirementConfig+c.String()] = selector(c.WithVersion("v1beta1").GroupVersion().String(), c.Kind, c.Namespace, c.Name)
		}
	}
}

// crdOf returns the name of the CustomResourceDefinition of a ProviderConfig.
func crdOf(c carry.Config) string { return strings.ToLower(c.Kind) + "s." + c.Group }

func selector(apiVersion, kind, namespace, name string) *fnv1.ResourceSelector {
	out := &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
	if namespace != "" {
		out.Namespace = ptr.To(namespace)
	}
	return out
}

// check returns a note about the shared ProviderConfigs that do not have the tag, or of which that is unknown.
func (s Session) check(req *fnv1.RunFunctionRequest) []string {
	var faults []string
	for i, c := range s.shared(req) {
		fault := fmt.Sprintf("not checked, as only %d are", maxShared)
		if i < maxShared {
			fault = s.fault(req, c)
		}
		if fault != "" {
			faults = append(faults, fmt.Sprintf("%s (%s)", c, fault))
		}
	}
	return about(faults, "the Composition does not compose, and Kausality does not change, what has no session tag "+carry.TagSession+"="+s.value+
		": %s; compose one with spec.assumeRoleChain, or set the tag on its first role, as a transitive one")
}

// fault returns what is wrong with a shared ProviderConfig; "" for nothing.
func (s Session) fault(req *fnv1.RunFunctionRequest, c carry.Config) string {
	if !carry.HasChain(c.GroupKind) {
		return "not checked, since its kind has no spec.assumeRoleChain"
	}
	items, looked := policies.Required(req, RequirementConfig+c.String())
	kind, lookedForKind := policies.Required(req, RequirementKind+crdOf(c))
	switch {
	case lookedForKind && len(kind) == 0:
		return "its kind is not installed"
	case !looked:
		return "it was not read"
	case len(items) == 0:
		return "it does not exist"
	}
	return carry.SessionFault(ssa.Object(items[0].GetResource()), s.value)
}
