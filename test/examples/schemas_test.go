package examples

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// Each field in the schemas written by hand is set by an example: an unused
// field is cut (schemas/README.md).
func TestSchemasHoldNothingUnused(t *testing.T) {
	root, err := parts.Root()
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, dir := range examples(t, root) {
		objects = append(objects, objectsOf(t, dir)...)
	}
	for _, dir := range examples(t, root) { // bases in pipelines count, too
		for _, o := range objectsOf(t, dir) {
			objects = append(objects, bases(o)...)
		}
	}
	for _, crd := range written(t) {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		var values []any
		for _, o := range objects {
			if o.GetKind() == kind && o.GroupVersionKind().Group == group {
				values = append(values, o.Object)
			}
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if len(values) == 0 || len(versions) != 1 {
			t.Fatalf("%s: %d examples, %d versions", crd.GetName(), len(values), len(versions))
		}
		schema, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
		if err != nil || !found {
			t.Fatalf("%s has no schema: %v", crd.GetName(), err)
		}
		for _, path := range unused(schema, values, nil) {
			t.Errorf("%s: no example sets %s", crd.GetName(), path)
		}
	}
}

// written CRDs.
func written(t *testing.T) (out []*unstructured.Unstructured) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("schemas", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		out = append(out, decode(t, read(t, file))...)
	}
	if len(out) == 0 {
		t.Fatal("there are no schemas")
	}
	return out
}

func bases(o *unstructured.Unstructured) (out []*unstructured.Unstructured) {
	resources, _, _ := unstructured.NestedSlice(o.Object, "resources")
	for _, r := range resources {
		m, _ := r.(map[string]any)
		if base, ok := m["base"].(map[string]any); ok {
			out = append(out, &unstructured.Unstructured{Object: base})
		}
	}
	return out
}

// unused properties of a schema, by their paths: none of the values has them.
func unused(schema map[string]any, values []any, at []string) (out []string) {
	if items, ok := schema["items"].(map[string]any); ok {
		var all []any
		for _, v := range values {
			list, _ := v.([]any)
			all = append(all, list...)
		}
		return unused(items, all, append(at, "[]"))
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		var below []any
		for _, v := range values {
			m, _ := v.(map[string]any)
			if inner, ok := m[name]; ok {
				below = append(below, inner)
			}
		}
		path := append(slices.Clone(at), name)
		if len(below) == 0 {
			out = append(out, strings.Join(path, "."))
			continue
		}
		inner, _ := p.(map[string]any)
		out = append(out, unused(inner, below, path)...)
	}
	slices.Sort(out)
	return out
}

// What the real CRDs refuse, and what the written ones cut, is refused.
func TestValidateRefuses(t *testing.T) {
	root, cli := installed(t)
	v := newValidator(t, root, cli)
	refused := []struct{ object, why string }{
		{
			object: `{apiVersion: opentofu.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: flux}, spec: {forProvider: {module: m, source: Flux}}}`,
			why:    `Unsupported value: "Flux"`,
		},
		{
			object: `{apiVersion: opentofu.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: bare}, spec: {forProvider: {source: Inline}}}`,
			why:    `spec.forProvider.module: Required value`,
		},
		{
			object: `{apiVersion: s3.aws.m.upbound.io/v1beta1, kind: Bucket, metadata: {name: typo}, spec: {forProvider: {region: r, tag: {a: b}}}}`,
			why:    `unknown field: "tag"`,
		},
		{
			object: `{apiVersion: s3.aws.m.upbound.io/v1beta1, kind: Bucket, metadata: {name: number}, spec: {forProvider: {region: r, tags: {a: 1}}}}`,
			why:    `spec.forProvider.tags.a: Invalid value`,
		},
		{
			object: `{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, metadata: {name: patch}, resources: [{name: a, patches: [{type: FromComposite}]}]}`,
			why:    `Unsupported value: "FromComposite"`,
		},
		{
			object: `{apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, metadata: {name: field}, resources: [{name: a, patches: [{fromFieldPaht: spec.a}]}]}`,
			why:    `unknown field: "fromFieldPaht"`,
		},
		{
			object: `{apiVersion: kausality.fn.crossplane.io/v1alpha1, kind: Input, metadata: {name: mode}, mode: strict}`,
			why:    `Unsupported value: "strict"`,
		},
	}
	var objects []*unstructured.Unstructured
	for _, r := range refused {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(r.object), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	out, err := v.run(t, filepath.Join(root, "examples", "getting-started"), objects)
	if err == nil {
		t.Error("all of it is valid")
	}
	for _, r := range refused {
		if !strings.Contains(out, r.why) {
			t.Errorf("%s: want %q in\n%s", r.object, r.why, out)
		}
	}
}
