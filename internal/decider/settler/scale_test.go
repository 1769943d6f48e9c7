package settler

import (
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
)

var widget = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Widget"}

func widgetObject(generation int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "uid": "u", "resourceVersion": "9", "generation": generation, "annotations": map[string]any{"jira": "X-1"}},
		"spec":     map[string]any{"pool": map[string]any{"nodes": int64(1)}, "size": int64(5)}}}
}

// TestFillObject: the trace and allowances of a change through /scale are part of its object from the moment
// it is stored until they are recorded, for decisions and other changes alike (KR-01-09).
func TestFillObject(t *testing.T) {
	m, now := clockedMemory()
	req := &admission.Request{User: subject.User{Name: "hans@example.com"}, OldObject: widgetObject(2), Object: widgetObject(2)}
	req.OldObject.SetResourceVersion("7")
	assert.NoError(t, unstructured.SetNestedField(req.Object.Object, int64(3), "spec", "pool", "nodes"))
	ref := parent.RefOf(req.Object)
	above := trace.Hop(parent.Ref{GroupVersionKind: widget, Name: "above"}, 4, "alice@example.com", *now)
	own := trace.Hop(ref, 3, "hans@example.com", *now)
	own.Approval = &v1alpha1.HopApproval{Claim: "c1"}
	granted, stored := `[{"kind":"Part"}]`, trace.Trace{trace.Hop(ref, 2, "hans@example.com", now.Add(-time.Hour))}.String()
	m.Scale(req, admission.Decision{Trace: trace.Trace{above, own}, Changes: []change.Change{{Path: "spec.pool.nodes"}},
		Later: map[string]*string{v1alpha1.AnnotationKeyAllowances: &granted, v1alpha1.AnnotationKeyUpdaters: nil}})

	landed := func(generation int64, hop string) *unstructured.Unstructured {
		o := widgetObject(generation)
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyTrace: hop, v1alpha1.AnnotationKeyUpdaters: "abcde", "jira": "X-1"})
		return o
	}
	before := landed(2, stored)
	assert.Same(t, before, m.FillObject(before, parent.RoleNone), "it has not landed")
	after := landed(3, stored)
	filled := m.FillObject(after, parent.RoleNone).GetAnnotations()
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
	assert.Same(t, later, m.FillObject(later, parent.RoleNone), "another change came in its place, or recorded it")
	bumped := landed(4, trace.Trace{trace.Hop(ref, 3, "alice@example.com", *now)}.String())
	assert.Same(t, bumped, m.FillObject(bumped, parent.RoleNone), "and no later generation brings it back")
	m.scaleRecorded("u")
	assert.NotSame(t, after, m.FillObject(after, parent.RoleNone), "a request may have read it before")
	*now = now.Add(touchedFor + time.Second)
	assert.Same(t, after, m.FillObject(after, parent.RoleNone), "the object shows it by itself")
}
