package systems

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Managed resources of Crossplane: every kind with spec.managementPolicies. The
// mask is that of admission/mask, and the gate is kept by admission.Gating,
// which knows more than a View holds; here is only how the two look as a System.
type Managed struct{}

// Name is "Crossplane".
func (Managed) Name() string { return "Crossplane" }

// Handles every kind with managementPolicies.
func (Managed) Handles(_ schema.GroupVersionKind, kind admission.Kind) bool {
	return kind.ManagementPolicies
}

func policies(o *unstructured.Unstructured) (stored, author []string) {
	stored = parent.Sum(o, parent.RoleManaged).ManagementPolicies
	return stored, mask.AuthorOf(o.GetAnnotations(), stored)
}

// Author is the spec.managementPolicies that its author wrote.
func (Managed) Author(o *unstructured.Unstructured) json.RawMessage {
	_, author := policies(o)
	return quote(author)
}

// Look at a managed resource.
func (Managed) Look(o *unstructured.Unstructured) external.View {
	s := parent.Sum(o, parent.RoleManaged)
	stored, author := policies(o)
	v := external.View{Known: external.Comparable(o.Object), Current: true, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}}
	_, v.Masked = mask.ParseAuthor(o.GetAnnotations()[v1alpha1.AnnotationKeyManagementPolicies])
	switch {
	case !mask.Maskable(author) || !mask.Gives(author, v1alpha1.VerbObserve):
		v.State, v.Why = external.StateFree, "its author lets nothing through"
		return v
	case mask.Gives(stored, v1alpha1.VerbCreate), mask.Gives(stored, v1alpha1.VerbUpdate), mask.Gives(stored, v1alpha1.VerbDelete):
		v.State = external.StateOpen
	default:
		v.State = external.StateClosed
	}
	v.Idle = s.True("Synced") && s.True("Ready") && !s.Paused
	if v.Known {
		v.Difference = external.Difference(o.Object)
	}
	return v
}

// Open for the gate's verbs: the smallest legal set that holds them.
func (Managed) Open(o *unstructured.Unstructured, gate v1alpha1.Gate, _ external.Provenance) map[string]any {
	_, author := policies(o)
	return setPolicies(mask.Policies(author, gate.Verbs, mask.RuntimeCurrent))
}

// Close for everything but looking.
func (Managed) Close(o *unstructured.Unstructured) map[string]any {
	_, author := policies(o)
	return setPolicies(mask.Policies(author, nil, mask.RuntimeCurrent))
}

// Restore what the author wrote.
func (Managed) Restore(o *unstructured.Unstructured) map[string]any {
	_, author := policies(o)
	return setPolicies(author)
}

func setPolicies(p []string) map[string]any {
	list := make([]any, 0, len(p))
	for _, e := range p {
		list = append(list, e)
	}
	return map[string]any{"spec": map[string]any{"managementPolicies": list}}
}
