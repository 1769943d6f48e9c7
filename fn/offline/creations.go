package offline

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// FormatCreations returns the value of v1alpha1.AnnotationKeyHeldCreations; "" for none.
func FormatCreations(list []v1alpha1.HeldCreation) string {
	if len(list) == 0 {
		return ""
	}
	return annotation.MustMarshal(list)
}

// ParseCreations parses a value of FormatCreations; nil for what does not parse.
func ParseCreations(value string) (out []v1alpha1.HeldCreation) {
	if value == "" || json.Unmarshal([]byte(value), &out) != nil {
		return nil
	}
	return out
}

// HeldBefore returns what an earlier run held of a resource, by its annotation, if it held the same operation; nil for none.
func HeldBefore(value string, op request.Operation) *request.Held {
	if value == "" {
		return nil
	}
	var h v1alpha1.Held
	if json.Unmarshal([]byte(value), &h) != nil || h.Operation != string(op) {
		return nil
	}
	return heldOf(h.HeldDrift, h.Reason)
}

// CreationBefore returns what an earlier run held of a resource of a kind that does not exist, by the lists of the observed ones; nil for none.
// every: each creation counts as held, as it does where a list is full, which may lack it.
func CreationBefore(observed []*Resource, name, kind string, every bool) *request.Held {
	for _, o := range observed {
		list := ParseCreations(o.Annotation(v1alpha1.AnnotationKeyHeldCreations))
		every = every || len(list) >= v1alpha1.MaxHeldCreations
		for _, c := range list {
			if c.Resource == name && c.Kind == kind {
				return heldOf(c.HeldDrift, c.Reason)
			}
		}
	}
	if every {
		return &request.Held{Whole: true}
	}
	return nil
}

// heldOf a record. That of an earlier release has no values.
func heldOf(d v1alpha1.HeldDrift, reason string) *request.Held {
	if len(d.Drift) == 0 && reason == string(outcome.ReasonDrift) {
		return &request.Held{Whole: true}
	}
	return request.HeldOf(d)
}

// Whole returns what the deletion of a composite deletes of the observed resources, by the roles of their kinds; false where composites
// are composed, below which a request shows nothing.
func Whole(root *parent.State, observed []*Resource, roleOf func(schema.GroupVersionKind) parent.Role) (identity.Whole, bool) {
	var below []*parent.State
	for _, r := range observed {
		switch roleOf(r.GroupVersionKind()) {
		case parent.RoleManaged:
			below = append(below, parent.Sum(r.Whole(), parent.RoleManaged))
		case parent.RoleComposite:
			return identity.Whole{}, false
		}
	}
	return identity.WholeOf(root, below), true
}
