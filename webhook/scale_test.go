package webhook

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
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
	assert.NoError(t, scaleTo(req, before, cluster.Info{GVK: widget, ScalePath: "spec.pool.nodes"}))
	assert.Equal(t, widget, req.Kind)
	assert.Equal(t, "7", req.OldObject.GetResourceVersion(), "the version that was scaled")
	assert.Equal(t, "X-1", req.Object.GetAnnotations()["jira"])
	for o, want := range map[*unstructured.Unstructured]int64{req.OldObject: 1, req.Object: 3} {
		n, _, err := unstructured.NestedInt64(o.Object, "spec", "pool", "nodes")
		assert.NoError(t, err)
		assert.Equal(t, want, n)
	}
	req = scaleRequest(math.MinInt32, 3)
	assert.NoError(t, scaleTo(req, widgetObject(2), cluster.Info{GVK: widget, ScalePath: "spec.fresh"}))
	_, found, err := unstructured.NestedInt64(req.OldObject.Object, "spec", "fresh")
	assert.NoError(t, err)
	assert.False(t, found, "the field was not there before")
	err = scaleTo(scaleRequest(1, 3), widgetObject(2), cluster.Info{GVK: widget, ScalePath: "spec.size.nodes"})
	assert.ErrorContains(t, err, `cannot scale Widget by its field "spec.size.nodes"`)
}

// What a change through /scale was granted stands with its object until the
// writer wrote it, for decisions and for other changes alike, and no longer.
func TestScaleIsPending(t *testing.T) {
	tr, now := clockedTracker()
	h := &Handler{tracker: tr}
	req := scaleRequest(1, 3)
	assert.NoError(t, scaleTo(req, widgetObject(2), cluster.Info{GVK: widget, ScalePath: "spec.pool.nodes"}))
	req.User = subject.User{Name: "hans@example.com"}
	ref := parent.RefOf(req.Object)
	above := trace.Hop(parent.Ref{GroupVersionKind: widget, Name: "above"}, 4, "alice@example.com", *now)
	own := trace.Hop(ref, 3, "hans@example.com", *now)
	own.Approval = &v1alpha1.HopApproval{Claim: "c1"}
	granted, stored := `[{"kind":"Part"}]`, trace.Trace{trace.Hop(ref, 2, "hans@example.com", now.Add(-time.Hour))}.String()
	tr.sawScale(req, admission.Decision{Trace: trace.Trace{above, own}, Changes: []change.Change{{Path: "spec.pool.nodes"}},
		Later: map[string]*string{v1alpha1.AnnotationKeyAllowances: &granted, v1alpha1.AnnotationKeyUpdaters: nil}})

	landed := func(generation int64, hop string) *unstructured.Unstructured {
		o := widgetObject(generation)
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyTrace: hop, v1alpha1.AnnotationKeyUpdaters: "abcde", "jira": "X-1"})
		return o
	}
	before := landed(2, stored)
	assert.Same(t, before, h.withPending(before, parent.RoleNone), "it has not landed")
	after := landed(3, stored)
	filled := h.withPending(after, parent.RoleNone).GetAnnotations()
	assert.Equal(t, granted, filled[v1alpha1.AnnotationKeyAllowances])
	assert.NotContains(t, filled, v1alpha1.AnnotationKeyUpdaters, "what is to be removed is")
	assert.Equal(t, "X-1", filled["jira"])
	hops := trace.Of(filled)
	if assert.Len(t, hops, 2) {
		assert.Equal(t, "above", hops[0].Name)
		assert.EqualValues(t, 3, hops[1].Generation)
		assert.Equal(t, "c1", hops[1].Approval.Claim)
	}
	assert.Equal(t, stored, after.GetAnnotations()[v1alpha1.AnnotationKeyTrace], "the input is not modified")

	later := landed(3, trace.Trace{trace.Hop(ref, 3, "alice@example.com", *now)}.String())
	assert.Same(t, later, h.withPending(later, parent.RoleNone), "another change came in its place, or recorded it")
	bumped := landed(4, trace.Trace{trace.Hop(ref, 3, "alice@example.com", *now)}.String())
	assert.Same(t, bumped, h.withPending(bumped, parent.RoleNone), "and no later generation brings it back")
	tr.recorded("u")
	assert.Same(t, after, h.withPending(after, parent.RoleNone), "the object tells by itself")
}
