package systems

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// System is one kind of external system. Its methods read an object and never
// change it. Edits are merge patches without metadata; nil for none. A System is
// safe for concurrent use.
type System interface {
	// Name of the system, for messages, metrics and allowances.
	Name() string
	// Handles reports whether the system acts on objects of a kind.
	Handles(gvk schema.GroupVersionKind) bool
	// Field is the path of the field that closes the gate, for messages.
	Field() string
	// Look at an object as it is stored.
	Look(o *unstructured.Unstructured) external.View
	// Author is what the author wrote where the mask is put, to be remembered:
	// what is stored where nothing is masked, else what is remembered, unless
	// something else was written over the mask.
	Author(o *unstructured.Unstructured) json.RawMessage
	// Open lets exactly what Look shows through, for the verbs of the gate that
	// is stored together with the edit.
	Open(o *unstructured.Unstructured, gate v1alpha1.Gate, by external.Provenance) map[string]any
	// Close again, and stop what was opened for and did not begin.
	Close(o *unstructured.Unstructured) map[string]any
	// Restore what the author wrote.
	Restore(o *unstructured.Unstructured) map[string]any
}

// For returns the system whose objects have a kind; nil for other kinds, such
// as managed resources, whose gate is the mask on spec.managementPolicies (KR-08-42).
func For(gvk schema.GroupVersionKind) System {
	for _, s := range []System{Flux{}, ArgoCD{}} {
		if s.Handles(gvk) {
			return s
		}
	}
	return nil
}

// remembered value of the author's; ok is false where the object is not masked.
func remembered(o *unstructured.Unstructured) (json.RawMessage, bool) {
	value := o.GetAnnotations()[v1alpha1.AnnotationKeyExternalAuthor]
	if value == "" || !json.Valid([]byte(value)) {
		return nil, false
	}
	return json.RawMessage(value), true
}

// field of an object's content; nil if it has no such field.
func field(o *unstructured.Unstructured, path ...string) any {
	v, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	if !found || err != nil {
		return nil
	}
	return v
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _ := field(o, path...).(string)
	return s
}

func flag(o *unstructured.Unstructured, path ...string) bool {
	b, _ := field(o, path...).(bool)
	return b
}

func number(o *unstructured.Unstructured, path ...string) int64 {
	n, _ := field(o, path...).(int64)
	return n
}

// condition of an object: its status, reason and message; empty where it has none.
func condition(o *unstructured.Unstructured, kind string) (status, reason, message string) {
	list, _ := field(o, "status", "conditions").([]any)
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

// quote a value as JSON, as part of a patch.
func quote(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // what came from JSON always marshals
	}
	return raw
}
