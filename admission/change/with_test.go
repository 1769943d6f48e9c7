package change

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestWith covers KR-10-18: an object with a difference, where that can be made of what a report shows.
func TestWith(t *testing.T) {
	cases := map[string]struct {
		reason     string
		difference v1alpha1.FieldDifference
		want       map[string]any
	}{
		"Mutate": {difference: v1alpha1.FieldDifference{Path: "spec.size", Verb: "Mutate", New: `2`}, want: map[string]any{"size": 2.0, "list": []any{"a"}}},
		"Insert": {difference: v1alpha1.FieldDifference{Path: "spec.a.b", Verb: "Insert", New: `"c"`},
			want: map[string]any{"size": int64(1), "list": []any{"a"}, "a": map[string]any{"b": "c"}}},
		"Delete": {difference: v1alpha1.FieldDifference{Path: "spec.size", Verb: "Delete"}, want: map[string]any{"list": []any{"a"}}},
		"Gone":   {difference: v1alpha1.FieldDifference{Path: "spec.no.size", Verb: "Delete"}, want: map[string]any{"size": int64(1), "list": []any{"a"}}},
		"Dotted": {difference: v1alpha1.FieldDifference{Path: "spec[a.b/c]", Verb: "Insert", New: `1`},
			want: map[string]any{"size": int64(1), "list": []any{"a"}, "a.b/c": 1.0}},
		"Item": {difference: v1alpha1.FieldDifference{Path: "spec.list[0]", Verb: "Mutate", New: `"b"`}, want: map[string]any{"size": int64(1),
			"list": []any{"b"}}},
		"NoItem":  {reason: "the list is shorter now", difference: v1alpha1.FieldDifference{Path: "spec.list[1]", Verb: "Mutate", New: `"b"`}},
		"Cut":     {reason: "it was cut short", difference: v1alpha1.FieldDifference{Path: "spec.size", Verb: "Mutate", New: `"b…`}},
		"Open":    {reason: "no path", difference: v1alpha1.FieldDifference{Path: "spec[size", Verb: "Mutate", New: `1`}},
		"Another": {reason: "a value has no fields", difference: v1alpha1.FieldDifference{Path: "spec.size.x", Verb: "Mutate", New: `1`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{"spec": map[string]any{"size": int64(1), "list": []any{"a"}}}
			got, ok := With(object, []v1alpha1.FieldDifference{tc.difference})
			assert.Equal(t, map[string]any{"spec": map[string]any{"size": int64(1), "list": []any{"a"}}}, object, "it is not modified")
			assert.Equal(t, tc.want != nil, ok, tc.reason)
			if ok {
				assert.Equal(t, tc.want, got["spec"])
			}
		})
	}
}
