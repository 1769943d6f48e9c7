package change

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func schemaOf(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The first field of a path that the schema of a kind lacks (KR-06-28).
func TestSchemaLacks(t *testing.T) {
	crd := SchemaOf(schemaOf(t, `
type: object
properties:
  metadata: {type: object}
  spec:
    type: object
    properties:
      size: {type: string}
      port: {x-kubernetes-int-or-string: true}
      empty: {type: object}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
      tags: {type: object, additionalProperties: {type: object, properties: {value: {type: string}}}}
      list: {type: array, items: {type: object, properties: {image: {type: string}}}}
  status: {type: object, properties: {conditions: {type: array, items: {type: object}}}}`))
	builtin := SchemaOfComponent(schemaOf(t, `
deployment: {type: object, properties: {spec: {default: {}, allOf: [{$ref: "#/components/schemas/spec"}]}}}
spec: {type: object, properties: {replicas: {type: integer}, raw: {type: object}, template: {$ref: "#/components/schemas/template"}}}
template: {type: object, properties: {image: {type: string}}}`), "deployment")
	for _, tc := range []struct {
		reason, path, want string
		schema             *Schema
	}{
		{reason: "a field", schema: crd, path: "spec.size"},
		{reason: "all fields", schema: crd, path: "*"},
		{reason: "no such field", schema: crd, path: "spec.sise", want: "spec.sise"},
		{reason: "the first that is lacking", schema: crd, path: "spec.db.size.unit", want: "spec.db"},
		{reason: "nothing is below a text", schema: crd, path: "spec.size.unit", want: "spec.size.unit"},
		{reason: "an object without fields of a CRD has none", schema: crd, path: "spec.empty.a", want: "spec.empty.a"},
		{reason: "unknown fields are preserved", schema: crd, path: "spec.free.a.b[0].c"},
		{reason: "without a type", schema: crd, path: "spec.port.a"},
		{reason: "any key", schema: crd, path: "spec.tags[a/b].value"},
		{reason: "below any key", schema: crd, path: "spec.tags[a].name", want: "spec.tags.a.name"},
		{reason: "any item", schema: crd, path: "spec.list[*].image"},
		{reason: "an item", schema: crd, path: "spec.list[3].image"},
		{reason: "no field of an item", schema: crd, path: "spec.list[*].tag", want: "spec.list[*].tag"},
		{reason: "a list has no names", schema: crd, path: "spec.list.image", want: "spec.list.image"},
		{reason: "any field has it", schema: crd, path: "spec[*].value"},
		{reason: "metadata is that of all objects", schema: crd, path: "metadata.annotations[jira]"},
		{reason: "of the status", schema: crd, path: "status.observedGeneration", want: "status.observedGeneration"},
		{reason: "not at the top", schema: crd, path: "data", want: "data"},
		{reason: "by reference", schema: builtin, path: "spec.template.image"},
		{reason: "lacking by reference", schema: builtin, path: "spec.template.tag", want: "spec.template.tag"},
		{reason: "an object of a built-in kind without fields has any", schema: builtin, path: "spec.raw.a"},
		{reason: "no schema is known", path: "spec.a"},
		{reason: "a CRD without one", schema: SchemaOf(nil), path: "spec.a"},
		{reason: "no such component", schema: SchemaOfComponent(nil, "a"), path: "spec.a"},
	} {
		p, err := ParsePattern(tc.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := tc.schema.LacksPattern(p); got != tc.want {
			t.Errorf("%s: %s lacks %q, want %q", tc.reason, tc.path, got, tc.want)
		}
	}
}
