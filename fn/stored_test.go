package fn

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// webhooked is a stage whose composite a webhook guards, but none of what it composes.
func webhooked(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, enforce)
	s.annotate(v1alpha1.AnnotationKeyTrace, fmt.Sprintf(`[{"apiVersion":"example.org/v1","kind":"XDatabase","name":"db","generation":1,`+
		`"user":"hans@example.com","timestamp":%q}]`, t0.Format(time.RFC3339)))
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	return s
}

// A once approval of a resource that the webhook does not guard is used once: nothing but
// the function sees its use (KR-09-17).
func TestOnceUnguarded(t *testing.T) {
	s := webhooked(t)
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "")
	want := desire{"a": plain("bronze")}
	s.reconcile(want)
	s.ready()
	s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
	for _, tier := range []string{"gold", "bronze"} {
		want["a"] = plain(tier)
		s.reconcile(want)
		s.wantReason(v1alpha1.ConditionReasonHeld)
		s.annotate(s.suggested()[0], "once")
		s.reconcile(want)
		s.wantWrites("update a")
		s.stable(want)
		s.wantReason(v1alpha1.ConditionReasonAllowed)
	}
	want["a"] = plain("gold")
	for range 3 {
		s.reconcile(want)
		s.wantReason(v1alpha1.ConditionReasonHeld)
		if got := s.field("a", "spec", "value"); got != "bronze" {
			t.Fatalf("an approval was used twice: %v", got)
		}
	}
}

func set(value any, path ...string) func(map[string]any) {
	return func(o map[string]any) { _ = unstructured.SetNestedField(o, value, path...) }
}

func unset(path ...string) func(map[string]any) {
	return func(o map[string]any) { unstructured.RemoveNestedField(o, path...) }
}

// dataOf stringData, as a Secret is stored.
func dataOf(o map[string]any) {
	text, _, _ := unstructured.NestedStringMap(o, "stringData")
	for k, v := range text {
		_ = unstructured.SetNestedField(o, base64.StdEncoding.EncodeToString([]byte(v)), "data", k)
	}
	unstructured.RemoveNestedField(o, "stringData")
}

// TestStoredForms covers KR-09-16: what the API server stores in another form than it is
// applied is no change, with a webhook on the composite and without.
func TestStoredForms(t *testing.T) {
	object := func(apiVersion, kind string, more map[string]any) map[string]any {
		more["apiVersion"], more["kind"] = apiVersion, kind
		return more
	}
	spec := func(m map[string]any) map[string]any { return map[string]any{"spec": m} }
	cases := map[string]struct {
		want   map[string]any
		stored func(map[string]any)
		// change of the user, and what is stored of it.
		change func(map[string]any)
	}{
		"StringData": {want: object("v1", "Secret", map[string]any{"stringData": map[string]any{"a": "b"}}), stored: dataOf,
			change: set("c", "stringData", "a")},
		"Quantity": {want: object("v1", "ResourceQuota", spec(map[string]any{"hard": map[string]any{"pods": int64(100), "cpu": "2"}})),
			stored: set("100", "spec", "hard", "pods"), change: set("3", "spec", "hard", "cpu")},
		"Zero": {want: object("v1", "Service", spec(map[string]any{"publishNotReadyAddresses": false, "externalName": "a"})),
			stored: unset("spec", "publishNotReadyAddresses"), change: set("b", "spec", "externalName")},
		"Default": {want: object("v1", "Service", spec(map[string]any{"type": "", "externalName": "a"})), stored: set("ClusterIP", "spec", "type"),
			change: set("b", "spec", "externalName")},
		"Time": {want: object("coordination.k8s.io/v1", "Lease", spec(map[string]any{"renewTime": "2026-01-01T00:00:00Z", "holderIdentity": "a"})),
			stored: set("2026-01-01T00:00:00.000000Z", "spec", "renewTime"), change: set("b", "spec", "holderIdentity")},
	}
	for name, tc := range cases {
		for _, webhook := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/webhook=%t", name, webhook), func(t *testing.T) {
				s := newStage(t, enforce)
				if webhook {
					s = webhooked(t)
				}
				s.stored = map[string]func(map[string]any){"a": tc.stored}
				want := desire{"a": tc.want}
				s.reconcile(want)
				s.settle(want)
				s.wantReason(v1alpha1.ConditionReasonAllowed)
				s.stable(want)
				next := (&unstructured.Unstructured{Object: tc.want}).DeepCopy()
				tc.change(next.Object)
				want["a"] = next.Object
				s.reconcile(want)
				s.wantReason(v1alpha1.ConditionReasonHeld) // nothing requested it
			})
		}
	}
}
