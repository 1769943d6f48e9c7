package carry

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Field below spec.forProvider that records provenance.
type Field struct {
	Name string
	// On: the Input configures it.
	On bool
	// With returns the field's value with provenance in it: as observed, or as of now
	// where the change is accepted. nil is no field.
	With func(desired, observed any, accepted bool) (any, error)
	// Ours reports whether a value of the field has provenance in it.
	Ours func(value any) bool
}

// Fields that the Input configures.
type Fields struct{ Tags, Env bool }

// Of returns the field of a resource that carries its provenance; ok is false where it has none, or its field has another type. current is nil
// for one that does not exist.
func Of(desired, current *unstructured.Unstructured, p external.Provenance, on Fields) (f Field, ok bool) {
	gk, wanted := desired.GroupVersionKind().GroupKind(), ForProvider(desired)
	switch {
	case external.TakesTags(gk, wanted, ForProvider(current)):
		f = Field{"tags", on.Tags, WithTags(p.Tags()), HasTags}
		ok = ssa.Child(wanted, f.Name) != nil
	case external.TakesEnv(gk):
		f = Field{"env", on.Env, WithEnv(p.Env()), HasEnv}
		_, ok = wanted[f.Name].([]any)
	default:
		return f, false
	}
	return f, ok || wanted[f.Name] == nil
}

// ForProvider returns spec.forProvider of an object; nil where it is not set, and for nil.
func ForProvider(u *unstructured.Unstructured) map[string]any {
	if u == nil {
		return nil
	}
	return ssa.Child(ssa.Child(u.Object, "spec"), "forProvider")
}
