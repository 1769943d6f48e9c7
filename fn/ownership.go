package fn

import (
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kausality-io/function-kausality/admission/subject"
)

// ownership says who applied which fields of an observed resource, by its
// managedFields.
type ownership struct {
	// composed is what the pipeline applied by Crossplane; nil where
	// managedFields show nothing of the kind.
	composed *fieldpath.Set
	// at is when that last changed anything; zero where it is not known.
	at time.Time

	entries []*structpb.Struct
	rest    *fieldpath.Set
}

// own reads the ownership of an observed resource.
func own(observed *structpb.Struct) *ownership {
	o := &ownership{}
	list := observed.GetFields()["metadata"].GetStructValue().GetFields()["managedFields"].GetListValue()
	for _, e := range list.GetValues() {
		entry := e.GetStructValue()
		if !composedEntry(entry) {
			o.entries = append(o.entries, entry)
			continue
		}
		set := fieldsOf(entry.GetFields()["fieldsV1"].GetStructValue())
		if o.composed != nil {
			set = set.Union(o.composed)
		}
		o.composed = set
		if at, err := time.Parse(time.RFC3339, entry.GetFields()["time"].GetStringValue()); err == nil && at.After(o.at) {
			o.at = at
		}
	}
	return o
}

func composedEntry(e *structpb.Struct) bool {
	f := e.GetFields()
	return f["operation"].GetStringValue() == "Apply" && f["subresource"].GetStringValue() == "" &&
		subject.IsComposedApply(f["manager"].GetStringValue())
}

// others is what everybody else owns of the desired state; nil for nothing.
func (o *ownership) others() *fieldpath.Set {
	if o.rest == nil {
		for _, e := range o.entries {
			fields := e.GetFields()["fieldsV1"].GetStructValue()
			if !ofDesired(fields) {
				continue
			}
			set := fieldsOf(fields)
			if o.rest != nil {
				set = set.Union(o.rest)
			}
			o.rest = set
		}
	}
	return o.rest
}

// ofDesired reports whether fieldsV1 hold more than metadata and a status, which
// are all that most providers own.
func ofDesired(fields *structpb.Struct) bool {
	for k := range fields.GetFields() {
		if k != "f:metadata" && k != "f:status" {
			return true
		}
	}
	return false
}

// fieldsOf one entry, from its fieldsV1; what does not parse owns nothing.
func fieldsOf(fields *structpb.Struct) *fieldpath.Set {
	set := fieldpath.NewSet()
	fill(set, fields)
	return set
}

// fill an empty set from fieldsV1 as it is in the request: by way of JSON it would
// take longer than all the rest. self: the place itself is owned, not only what
// is below it.
func fill(set *fieldpath.Set, fields *structpb.Struct) (self bool) {
	set.Members = fieldpath.MakePathElementSet(len(fields.GetFields()))
	for k, v := range fields.GetFields() {
		if k == "." {
			self = true
			continue
		}
		pe, err := elementOf(k)
		if err != nil {
			continue
		}
		m := v.GetStructValue()
		if len(m.GetFields()) == 0 || fill(set.Children.Descend(pe), m) {
			set.Members.Insert(pe)
		}
	}
	return self
}

// elementOf a key of fieldsV1.
func elementOf(key string) (fieldpath.PathElement, error) {
	if name, ok := strings.CutPrefix(key, "f:"); ok {
		return fieldpath.FieldNameElement(name), nil // without the copy that is made of the others
	}
	return fieldpath.DeserializePathElement(key) //nolint:wrapcheck // What does not parse is left out.
}

// below is what a set holds under an element; nil where there is nothing.
func below(s *fieldpath.Set, pe fieldpath.PathElement) *fieldpath.Set {
	if s == nil {
		return nil
	}
	out, _ := s.Children.Get(pe)
	return out
}

// holds reports whether the element itself is in the set.
func holds(s *fieldpath.Set, pe fieldpath.PathElement) bool { return s != nil && s.Members.Has(pe) }

// elements of a set: each member, and each that has something below it, once.
func elements(s *fieldpath.Set) iter.Seq[fieldpath.PathElement] {
	return func(yield func(fieldpath.PathElement) bool) {
		if s == nil {
			return
		}
		for pe := range s.Members.All() {
			if !yield(pe) {
				return
			}
		}
		for pe := range s.Children.All() {
			if !s.Members.Has(pe) && !yield(pe) {
				return
			}
		}
	}
}
