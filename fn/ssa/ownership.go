package ssa

import (
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/subject"
)

// Ownership is which manager applied which fields of an observed resource, by its
// managedFields. It is not safe for concurrent use.
type Ownership struct {
	// composed is what the pipeline applied by Crossplane; nil where
	// managedFields show nothing of the kind.
	composed fieldSet
	// At is when that last changed anything; zero where it is not known.
	At time.Time

	// entries of the other managers, not parsed before others is called; rest is then
	// their union.
	entries []*structpb.Struct
	rest    fieldSet
}

// Own reads the ownership of an observed resource.
func Own(observed *structpb.Struct) *Ownership {
	o := &Ownership{}
	list := observed.GetFields()["metadata"].GetStructValue().GetFields()["managedFields"].GetListValue()
	for _, e := range list.GetValues() {
		entry := e.GetStructValue()
		if !composedEntry(entry) {
			o.entries = append(o.entries, entry)
			continue
		}
		o.composed = union(o.composed, fieldSet(entry.GetFields()["fieldsV1"].GetStructValue().GetFields()))
		if at, err := time.Parse(time.RFC3339, entry.GetFields()["time"].GetStringValue()); err == nil && at.After(o.At) {
			o.At = at
		}
	}
	return o
}

// Annotates reports whether the pipeline applied an annotation.
func (o *Ownership) Annotates(key string) bool {
	return o.composed.below(fieldKey("metadata")).below(fieldKey("annotations")).holds(fieldKey(key))
}

// Shared reports whether other managers own anything of the desired state.
func (o *Ownership) Shared() bool { return len(o.others()) > 0 }

// composedEntry reports whether an entry of managedFields is of a composed apply.
func composedEntry(e *structpb.Struct) bool {
	f := e.GetFields()
	return f["operation"].GetStringValue() == "Apply" && f["subresource"].GetStringValue() == "" &&
		subject.IsComposedApply(f["manager"].GetStringValue())
}

// others returns what the other managers own of the desired state; nil for nothing.
func (o *Ownership) others() fieldSet {
	if o.rest == nil {
		for _, e := range o.entries {
			if fields := fieldSet(e.GetFields()["fieldsV1"].GetStructValue().GetFields()); fields.ofDesired() {
				o.rest = union(o.rest, fields)
			}
		}
	}
	return o.rest
}

// fieldSet is what a manager owns below a place in an object: one level of fieldsV1
// (KEP-555) as it is in the request, since converting all of it would take longer than
// the rest of a run. Keys are "f:" and a field's name, those of list items as package
// fieldpath serializes them, and itself; what does not parse owns nothing. nil is
// nothing. It is not modified.
type fieldSet map[string]*structpb.Value

// itself is the key by which the place is owned, not only what is below it.
const itself = "."

// fieldKey returns the key of a field.
func fieldKey(name string) string { return "f:" + name }

// ofDesired reports whether fieldsV1 hold more than metadata and a status, which
// are all that most providers own.
func (s fieldSet) ofDesired() bool {
	for k := range s {
		if k != "f:metadata" && k != "f:status" {
			return true
		}
	}
	return false
}

// below returns what a set holds under a key; nil where there is nothing.
func (s fieldSet) below(key string) fieldSet {
	if m := s[key].GetStructValue().GetFields(); len(m) > 0 {
		return m
	}
	return nil
}

// holds reports whether the place under a key is itself in the set.
func (s fieldSet) holds(key string) bool {
	v, ok := s[key]
	m := v.GetStructValue().GetFields()
	_, self := m[itself]
	return ok && (self || len(m) == 0)
}

// fields returns the fields in a set, themselves or something below them: keys and names, in no order.
func (s fieldSet) fields() iter.Seq2[string, string] {
	return func(yield func(key, name string) bool) {
		for key := range s {
			if name, ok := strings.CutPrefix(key, "f:"); ok && !yield(key, name) {
				return
			}
		}
	}
}

// union returns the union of two sets, never nil.
func union(a, b fieldSet) fieldSet {
	if len(a) == 0 && len(b) > 0 {
		return b
	}
	out := Clone(a)
	for k, v := range b {
		if was, ok := out[k]; ok {
			v = both(was, v)
		}
		out[k] = v
	}
	return out
}

// both returns both of what two sets hold under a key.
func both(v, w *structpb.Value) *structpb.Value {
	a, b := fieldSet(v.GetStructValue().GetFields()), fieldSet(w.GetStructValue().GetFields())
	leaf := fieldSet{itself: StructOf(nil)}
	switch {
	case len(a) == 0 && len(b) == 0:
		return v
	case len(a) == 0:
		a = leaf
	case len(b) == 0:
		b = leaf
	}
	return StructOf(union(a, b))
}
