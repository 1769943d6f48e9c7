package systems

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Patch carries out a decision on an object as it was read: a merge patch of its
// gate annotations, the author's value and the field that opens or closes the
// gate, under the precondition that the object has not changed.
func Patch(o *unstructured.Unstructured, s System, d gating.Decision) map[string]any {
	annotations := map[string]any{}
	for k, v := range d.Edits {
		if annotations[k] = nil; v != nil {
			annotations[k] = *v
		}
	}
	var edit map[string]any
	switch d.Action {
	case gating.ActionOpen:
		edit = s.Open(o, d.Gate, external.ProvenanceOf(trace.Of(o.GetAnnotations()), o.GetNamespace()))
	case gating.ActionRestore:
		edit = s.Restore(o)
		annotations[v1alpha1.AnnotationKeyExternalAuthor], annotations[v1alpha1.AnnotationKeyGate] = nil, nil
	default:
		edit = s.Close(o)
		annotations[v1alpha1.AnnotationKeyExternalAuthor] = string(s.Author(o))
	}
	if d.Action != gating.ActionRestore && d.Action != gating.ActionMask {
		annotations[v1alpha1.AnnotationKeyGate] = mask.FormatGate(d.Gate)
	}
	body := map[string]any{"metadata": map[string]any{"annotations": annotations, "resourceVersion": o.GetResourceVersion(), "uid": o.GetUID()}}
	maps.Copy(body, edit)
	return body
}
