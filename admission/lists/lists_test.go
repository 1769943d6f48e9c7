package lists

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/change"
)

func path(parts ...any) []change.Segment {
	var out []change.Segment
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			out = append(out, change.Segment{Key: v})
		case int:
			out = append(out, change.Segment{Index: v, Item: true})
		}
	}
	return out
}

func TestBuiltin(t *testing.T) {
	l := Builtin(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	for _, tc := range []struct {
		reason string
		at     []change.Segment
		want   change.ListType
	}{
		{"containers by name", path("spec", "template", "spec", "containers"), change.ListType{Keys: []string{"name"}}},
		{"environment by name", path("spec", "template", "spec", "containers", 3, "env"), change.ListType{Keys: []string{"name"}}},
		{"ports by number", path("spec", "template", "spec", "initContainers", 0, "ports"), change.ListType{Keys: []string{"containerPort"}}},
		{"no keys", path("spec", "template", "spec", "containers", 0, "args"), change.ListType{}},
		{"finalizers are a set", path("metadata", "finalizers"), change.ListType{Set: true}},
		{"no such field", path("spec", "nothing", "containers"), change.ListType{}},
		{"below a scalar", path("spec", "replicas", "x"), change.ListType{}},
	} {
		if d := cmp.Diff(tc.want, l.ListType(tc.at)); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
	if Builtin(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Deployment"}) != nil {
		t.Error("a kind that is not known has lists")
	}
}

func TestOfSchema(t *testing.T) {
	var s map[string]any
	if err := yaml.Unmarshal([]byte(`
type: object
properties:
  spec:
    type: object
    properties:
      rules: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [host, port], items: {type: object, properties: {tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}
      plain: {type: array, items: {type: string}}
      pools: {type: object, additionalProperties: {type: array, x-kubernetes-list-type: set, items: {type: string}}}
`), &s); err != nil {
		t.Fatal(err)
	}
	l := OfSchema(s)
	for _, tc := range []struct {
		reason string
		at     []change.Segment
		want   change.ListType
	}{
		{"keys", path("spec", "rules"), change.ListType{Keys: []string{"host", "port"}}},
		{"a set in an item", path("spec", "rules", 4, "tags"), change.ListType{Set: true}},
		{"a set under a free key", path("spec", "pools", "any"), change.ListType{Set: true}},
		{"index alone", path("spec", "plain"), change.ListType{}},
		{"unknown", path("spec", "nope", 1), change.ListType{}},
	} {
		if d := cmp.Diff(tc.want, l.ListType(tc.at)); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
	if OfSchema(map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object"}}}) != nil {
		t.Error("a schema without such lists keeps something")
	}
}
