package decider

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

var widget = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"}

// scaleRequest from some replicas to others, as the API server sends it.
func scaleRequest(from, to int64) *admission.Request {
	scale := func(n int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale",
			"metadata": map[string]any{"name": "w", "uid": "u", "resourceVersion": "7"}, "spec": map[string]any{"replicas": n}}}
	}
	return &admission.Request{Operation: admission.Update, Subresource: admission.SubresourceScale, Name: "w",
		Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, OldObject: scale(from), Object: scale(to)}
}

func widgetObject(generation int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "uid": "u", "resourceVersion": "9", "generation": generation, "annotations": map[string]any{"jira": "X-1"}},
		"spec":     map[string]any{"pool": map[string]any{"nodes": int64(1)}, "size": int64(5)}}}
}

// A request about a Scale becomes one about the object that is scaled, by the
// field that its CRD names.
func TestScaleTo(t *testing.T) {
	req, before := scaleRequest(1, 3), widgetObject(2)
	assert.NoError(t, scaleTo(req, before, kinds.Info{GVK: widget, ScalePath: "spec.pool.nodes"}))
	assert.Equal(t, widget, req.Kind)
	assert.Equal(t, "7", req.OldObject.GetResourceVersion(), "the version that was scaled")
	assert.Equal(t, "X-1", req.Object.GetAnnotations()["jira"])
	for o, want := range map[*unstructured.Unstructured]int64{req.OldObject: 1, req.Object: 3} {
		n, _, err := unstructured.NestedInt64(o.Object, "spec", "pool", "nodes")
		assert.NoError(t, err)
		assert.Equal(t, want, n)
	}
	req = scaleRequest(math.MinInt32, 3)
	assert.NoError(t, scaleTo(req, widgetObject(2), kinds.Info{GVK: widget, ScalePath: "spec.fresh"}))
	_, found, err := unstructured.NestedInt64(req.OldObject.Object, "spec", "fresh")
	assert.NoError(t, err)
	assert.False(t, found, "the field was not there before")
	err = scaleTo(scaleRequest(1, 3), widgetObject(2), kinds.Info{GVK: widget, ScalePath: "spec.size.nodes"})
	assert.ErrorContains(t, err, `cannot scale Widget by its field "spec.size.nodes"`)
}
