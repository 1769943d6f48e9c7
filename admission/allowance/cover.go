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
	// verbs name the creation alone (KR-06-07).
	initializing bool
	// inside: the child represents nothing outside of the cluster, and permissions of relation External do not cover it.
	inside bool
}

// Marks of a pattern in an index: the kinds of change that it covers.
const (
	markInsert uint8 = 1 << iota
	markDelete
	markMutate
	markAll = markInsert | markDelete | markMutate
)

// mark returns the mark of a kind of change; 0, which covers nothing, for an unknown one.
func mark(v v1alpha1.FieldVerb) uint8 {
	switch v {
	case v1alpha1.FieldInsert:
		return markInsert
	case v1alpha1.FieldDelete:
		return markDelete
	case v1alpha1.FieldMutate:
		return markMutate
	}
	return 0
}

// fields that permissions cover in the update of a child, indexed by path.
type fields struct {
	index change.Index
	// every field is covered.
	every bool
}

// fields returns the fields that the permissions cover in the update of a child of a kind. While the parent
// initializes, an entry with mutations covers updates, whatever its verbs are.
func (c coverage) fields(child schema.GroupKind) *fields {
	f := &fields{}
	for i := range c.allowed {
		a := &c.allowed[i]
		if a.external || !a.target.has(child) || !Gives(a.verbs, VerbUpdate) && (!c.initializing || len(a.mutations) == 0) {
			continue
		}
		f.every = f.every || len(a.mutations) == 0
		for j := range a.mutations {
			f.index.Add(a.mutations[j].path, a.mutations[j].marks())
		}
	}
	return f
}

// marks returns the marks of all kinds of change that a mutation permits.
func (m *mutation) marks() uint8 {
	if len(m.verbs) == 0 {
		return markAll
	}
	marks := uint8(0)
	for _, v := range m.verbs {
		marks |= mark(v)
	}
	return marks
}

// at reports whether one kind of change is covered at a path.
func (f *fields) at(path []change.Segment, verb change.Verb) bool {
	return f.every || f.index.Covers(path)&mark(v1alpha1.FieldVerb(verb)) != 0
}

// cover reports whether a changed field is covered: as a whole or, where it was inserted or deleted, in every part,
// by any of the entries.
func (f *fields) cover(d *change.Detail) bool {
	if f.at(d.At, d.Verb) {
		return true
	}
	return d.Verb != change.Mutate && d.Leaves(func(at []change.Segment) bool { return f.at(at, d.Verb) })
}

// touch reports whether a changed field is covered or, where it was inserted or deleted, some part of it.
func (f *fields) touch(d *change.Detail) bool {
	if f.cover(d) {
		return true
	}
	some := false
	d.Leaves(func(at []change.Segment) bool {
		some = f.at(at, d.Verb)
		return !some
	})
	return some
}

// missing returns the paths that nothing covers, sorted; the one path "" where a creation or deletion is not covered
// as such.
func (c coverage) missing(child schema.GroupKind, verb string, details []change.Detail) []string {
	if verb != VerbUpdate {
		if c.whole(child, verb) {
			return nil
		}
		return []string{""}
	}
	if len(details) == 0 {
		return nil
	}
	f := c.fields(child)
	var out []string
	for i := range details {
		if !f.cover(&details[i]) {
			out = append(out, details[i].Path)
		}
	}
	return out
}

// whole reports whether a creation or deletion is covered. A permission to delete and create an external resource
// again permits the same of its managed resource (KR-06-11), and of no other child.
func (c coverage) whole(child schema.GroupKind, verb string) bool {
	return slices.ContainsFunc(c.allowed, func(a allowed) bool {
		return !(c.inside && a.external) && a.target.has(child) && Gives(a.verbsFor(child), verb)
	})
}

// Gives reports whether verbs include one verb, or all of them.
func Gives(verbs []string, verb string) bool {
	return slices.Contains(verbs, verb) || slices.Contains(verbs, VerbAll)
}
