package fn

import (
	"bytes"
	"encoding/json"
	"time"

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

	entries []map[string]any
	rest    *fieldpath.Set
}

// own reads the ownership of an observed resource.
func own(observed map[string]any) *ownership {
	o := &ownership{}
	list, _ := child(observed, "metadata")["managedFields"].([]any)
	for _, e := range list {
		entry, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if !composedEntry(entry) {
			o.entries = append(o.entries, entry)
			continue
		}
		set := fieldsOf(entry)
		if o.composed != nil {
			set = set.Union(o.composed)
		}
		o.composed = set
		if at, err := time.Parse(time.RFC3339, text(entry, "time")); err == nil && at.After(o.at) {
			o.at = at
		}
	}
	return o
}

func composedEntry(e map[string]any) bool {
	return text(e, "operation") == "Apply" && text(e, "subresource") == "" && subject.IsComposedApply(text(e, "manager"))
}

// others is what everybody else owns. It is worked out when first asked for:
// hardly a resource needs it.
func (o *ownership) others() *fieldpath.Set {
	if o.rest == nil {
		o.rest = fieldpath.NewSet()
		for _, e := range o.entries {
			o.rest = o.rest.Union(fieldsOf(e))
		}
	}
	return o.rest
}

// fieldsOf one entry; what does not parse owns nothing.
func fieldsOf(entry map[string]any) *fieldpath.Set {
	set := fieldpath.NewSet()
	raw, err := json.Marshal(entry["fieldsV1"])
	if err != nil || set.FromJSON(bytes.NewReader(raw)) != nil {
		return fieldpath.NewSet()
	}
	return set
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
func elements(s *fieldpath.Set) []fieldpath.PathElement {
	if s == nil {
		return nil
	}
	out := make([]fieldpath.PathElement, 0, s.Members.Size()+s.Children.Size())
	s.Members.Iterate(func(pe fieldpath.PathElement) { out = append(out, pe) })
	s.Children.Iterate(func(pe fieldpath.PathElement) {
		if !s.Members.Has(pe) {
			out = append(out, pe)
		}
	})
	return out
}
