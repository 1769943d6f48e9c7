package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A CRD says which field /scale changes, and a resource leads to its kind.
func TestScalePath(t *testing.T) {
	version := func(name, path string) any {
		v := map[string]any{"name": name, "served": true}
		if path != "" {
			v["subresources"] = map[string]any{"scale": map[string]any{"specReplicasPath": path}}
		}
		return v
	}
	infos := infosOf(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "example.org", "scope": "Namespaced", "names": map[string]any{"kind": "Pool", "plural": "pools"},
		"versions": []any{version("v1", ".spec.nodes.count"), version("v2", "")},
	}}})
	k := &Kinds{byGVK: map[schema.GroupVersionKind]Info{}}
	for _, i := range infos {
		k.byGVK[i.GVK] = i
	}
	for name, want := range map[string]string{"v1": "spec.nodes.count", "v2": ""} {
		got, err := k.OfResource(schema.GroupVersionResource{Group: "example.org", Version: name, Resource: "pools"})
		assert.NoError(t, err)
		assert.Equal(t, want, got.ScalePath)
		assert.Equal(t, "Pool", got.GVK.Kind)
	}
}
