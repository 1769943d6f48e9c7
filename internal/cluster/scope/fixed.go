package scope

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fixed is what a webhook configuration selects that is stored nowhere.
type Fixed struct{ c *configuration }

// NewFixed returns what a configuration selects.
func NewFixed(o *unstructured.Unstructured) (*Fixed, error) {
	_, err := entriesOf(o)
	return &Fixed{c: configurationOf(o)}, err
}

// Covers reports whether requests for a resource, or for a subresource of it, may be about what is selected.
func (f *Fixed) Covers(r schema.GroupResource) bool { return Covers(f.c.rules, r) }

// Guards reports whether an object is selected, by the labels of its Namespace, and by its own before or after a request. Where those of the
// Namespace are not known, it may be.
func (f *Fixed) Guards(r schema.GroupResource, namespace string, of map[string]string, known bool, own []map[string]string) bool {
	var labelsOf func(string) (map[string]string, error)
	if known {
		labelsOf = func(string) (map[string]string, error) { return of, nil }
	}
	is, _, _ := Guards(f.c.entries, r, namespace, labelsOf, func(e Entry) bool { // the labels are at hand: there is no error
		return slices.ContainsFunc(own, func(l map[string]string) bool { return e.objects.Matches(labels.Set(l)) })
	})
	return is
}
