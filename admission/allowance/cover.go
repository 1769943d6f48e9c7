package allowance

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// coverage of a change by permissions.
type coverage struct {
	allowed []allowed
	// initializing: what may be mutated may be in an update as well, where the
	// verbs name the creation alone (spec 6).
	initializing bool
}

// missing are the paths that nothing covers, sorted; the one path "" where a
// creation or deletion is not covered as such.
func (c coverage) missing(child schema.GroupKind, verb string, details []change.Detail) []string {
	if verb != VerbUpdate {
		if c.whole(child, verb) {
			return nil
		}
		return []string{""}
	}
	var out []string
	for i := range details {
		if !c.field(child, &details[i]) {
			out = append(out, details[i].Path)
		}
	}
	return out
}

// whole reports whether a creation or deletion is covered. What permits the
// external resource to be deleted and created anew permits the same of its
// managed resource (spec 6).
func (c coverage) whole(child schema.GroupKind, verb string) bool {
	return slices.ContainsFunc(c.allowed, func(a allowed) bool {
		return a.target.has(child) && gives(a.verbs, verb)
	})
}

// field reports whether a changed field is covered: as a whole, or every part
// of what came or went, by whatever entries.
func (c coverage) field(child schema.GroupKind, d *change.Detail) bool {
	if c.at(child, d.At, v1alpha1.FieldVerb(d.Verb)) {
		return true
	}
	if d.Verb == change.Mutate {
		return false
	}
	return d.Leaves(func(at []change.Segment) bool { return c.at(child, at, v1alpha1.FieldVerb(d.Verb)) })
}

func (c coverage) at(child schema.GroupKind, at []change.Segment, verb v1alpha1.FieldVerb) bool {
	for i := range c.allowed {
		if c.allowed[i].covers(child, at, verb, c.initializing) {
			return true
		}
	}
	return false
}

// covers reports whether a permission covers a change of a field.
func (a *allowed) covers(child schema.GroupKind, at []change.Segment, verb v1alpha1.FieldVerb, initializing bool) bool {
	if a.external || !a.target.has(child) {
		return false
	}
	switch update := gives(a.verbs, VerbUpdate); {
	case !update && (!initializing || len(a.mutations) == 0):
		return false
	case len(a.mutations) == 0:
		return true
	}
	for i := range a.mutations {
		m := &a.mutations[i]
		if (len(m.verbs) == 0 || slices.Contains(m.verbs, verb)) && m.path.Covers(at) {
			return true
		}
	}
	return false
}

func gives(verbs []string, verb string) bool {
	return slices.Contains(verbs, verb) || slices.Contains(verbs, VerbAll)
}
