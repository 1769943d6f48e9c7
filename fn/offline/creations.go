package offline

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
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
