package change

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

type listCase struct {
	reason string
	path   []Segment
	want   ListType
}

func checkLists(t *testing.T, lists Lists, cases map[string]listCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, lists.ListType(tc.path)); d != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, d)
			}
		})
	}
}

func TestBuiltinLists(t *testing.T) {
	checkLists(t, BuiltinLists(appsv1.SchemeGroupVersion.WithKind("Deployment")), map[string]listCase{
		"Containers": {reason: "containers by name",
			path: at("spec", "template", "spec", "containers"), want: ListType{Keys: []string{"name"}}},
		"Environment": {reason: "variables by name, in each container",
			path: at("spec", "template", "spec", "containers", 3, "env"), want: ListType{Keys: []string{"name"}}},
		"Ports": {reason: "ports by number",
			path: at("spec", "template", "spec", "initContainers", 0, "ports"), want: ListType{Keys: []string{"containerPort"}}},
		"Arguments":  {reason: "arguments have no key", path: at("spec", "template", "spec", "containers", 0, "args")},
		"Finalizers": {reason: "finalizers are a set", path: at("metadata", "finalizers"), want: ListType{Set: true}},
		"NoField":    {reason: "no such field", path: at("spec", "nothing", "containers")},
		"Scalar":     {reason: "below a scalar", path: at("spec", "replicas", "x")},
	})
	if BuiltinLists(schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Deployment"}) != nil {
		t.Error("an unknown kind has lists")
	}
}

func TestSchemaLists(t *testing.T) {
	var s map[string]any
	if err := yaml.Unmarshal([]byte(`
type: object
properties:
  spec:
    type: object
    properties:
      rules:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [host, port]
        items:
          type: object
          properties:
            tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      plain: {type: array, items: {type: string}}
      pools: {type: object, additionalProperties: {type: array, x-kubernetes-list-type: set, items: {type: string}}}
`), &s); err != nil {
		t.Fatal(err)
	}
	checkLists(t, SchemaLists(s), map[string]listCase{
		"Keys":    {reason: "two keys", path: at("spec", "rules"), want: ListType{Keys: []string{"host", "port"}}},
		"Nested":  {reason: "a set in an item", path: at("spec", "rules", 4, "tags"), want: ListType{Set: true}},
		"Free":    {reason: "a set under any key of a map", path: at("spec", "pools", "any"), want: ListType{Set: true}},
		"Index":   {reason: "neither keys nor a set", path: at("spec", "plain")},
		"Unknown": {reason: "no such list", path: at("spec", "nope", 1)},
	})
	if SchemaLists(map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object"}}}) != nil {
		t.Error("a schema without such lists has some")
	}
}
