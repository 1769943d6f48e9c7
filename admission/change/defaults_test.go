package change

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestDefaults: what typed clients and the API server add has no content of its own (KR-07-08).
func TestDefaults(t *testing.T) {
	var schema map[string]any
	if err := yaml.Unmarshal([]byte(`
properties:
  spec:
    properties:
      watch: {type: boolean, default: false}
      enabled: {type: boolean, default: true}
      readiness: {properties: {policy: {type: string, default: SuccessfulCreate}, query: {type: string}}}
      ref: {default: {name: default, kind: Cluster}, properties: {name: {type: string}, kind: {type: string}}}
      references: {type: array, items: {properties: {from: {properties: {kind: {type: string, default: Object}}}}}}
      plain: {type: string}
`), &schema); err != nil {
		t.Fatal(err)
	}
	spec := func(keys ...string) (out []Segment) {
		for _, k := range append([]string{"spec"}, keys...) {
			out = append(out, Segment{Key: k})
		}
		return out
	}
	item := append(spec("references"), Segment{Item: true, Index: 1}, Segment{Key: "from"})
	cases := map[string]struct {
		reason string
		path   []Segment
		value  any
		want   bool
	}{
		"ZeroBool":   {reason: "the zero value", path: spec("watch"), value: false, want: true},
		"Default":    {reason: "the default", path: spec("enabled"), value: true, want: true},
		"NotDefault": {reason: "another value", path: spec("watch"), value: true},
		"Nested": {reason: "an empty struct, with the default of its field", path: spec("readiness"),
			value: map[string]any{"policy": "SuccessfulCreate"}, want: true},
		"NestedOther": {reason: "a value of its own", path: spec("readiness"), value: map[string]any{"policy": "AllTrue"}},
		"NestedMore": {reason: "a value beside the default", path: spec("readiness"),
			value: map[string]any{"policy": "SuccessfulCreate", "query": "x"}},
		"Object": {reason: "a default that is an object", path: spec("ref"),
			value: map[string]any{"name": "default", "kind": "Cluster"}, want: true},
		"ObjectOther":  {reason: "another name", path: spec("ref"), value: map[string]any{"name": "prod", "kind": "Cluster"}},
		"Item":         {reason: "in an item of a list", path: item, value: map[string]any{"kind": "Object", "name": ""}, want: true},
		"ItemOther":    {reason: "another value there", path: item, value: map[string]any{"kind": "Pod"}},
		"Empty":        {reason: "an empty list", path: spec("plain"), value: []any{}, want: true},
		"List":         {reason: "a list", path: spec("plain"), value: []any{""}},
		"Number":       {reason: "zero", path: spec("unknown"), value: int64(0), want: true},
		"Float":        {reason: "a number", path: spec("unknown"), value: 0.5},
		"Text":         {reason: "a text", path: spec("plain"), value: "x"},
		"UnknownDepth": {reason: "where the schema has nothing", path: spec("unknown", "below"), value: map[string]any{"a": ""}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := SchemaDefaults(schema).Fill(tc.path, tc.value); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
	if SchemaDefaults(map[string]any{"properties": map[string]any{"a": map[string]any{"type": "string"}}}) != nil {
		t.Error("a schema without defaults is kept")
	}
	if !(*Defaults)(nil).Fill(spec("a"), "") || (*Defaults)(nil).Fill(spec("a"), "x") {
		t.Error("without a schema, zero values alone have no content")
	}
}
