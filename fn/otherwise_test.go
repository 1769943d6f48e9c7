package fn

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestStoredOtherwise covers KR-09-29: what others store otherwise than it is applied, such as mutating webhooks, is no change once it was
// applied, an approval of another value is of that, once, and what another manager changes is held, as without.
func TestStoredOtherwise(t *testing.T) {
	object := func(host string) map[string]any {
		return map[string]any{"apiVersion": "app.example.org/v1", "kind": "Thing", "spec": map[string]any{
			"host": host, "password": "a", "none": map[string]any{}, "ports": []any{int64(80)}, "keyed": map[string]any{"a": "b"}}}
	}
	cases := map[string]struct {
		// stored is what the API server stores.
		stored func(map[string]any)
	}{
		"Lower":    {stored: set("some.example.org", "spec", "host")},
		"Dropped":  {stored: unset("spec", "password")},
		"InAList":  {stored: set([]any{int64(80), int64(443)}, "spec", "ports")},
		"Replaced": {stored: set("c", "spec", "keyed", "a")},
	}
	for name, tc := range cases {
		for _, webhook := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/webhook=%t", name, webhook), func(t *testing.T) {
				s := newStage(t, enforce)
				if webhook {
					s = webhooked(t)
					s.annotate(v1alpha1.AnnotationKeySettledGeneration, "")
				}
				s.stored = map[string]func(map[string]any){"a": tc.stored}
				want := desire{"a": object("Some.Example.ORG")}
				s.reconcile(want)
				s.reconcile(want)
				s.wantWrites("annotate a")
				s.settle(want)
				if webhook {
					s.annotate(v1alpha1.AnnotationKeySettledGeneration, "1")
				}
				s.stable(want)
				s.wantReason(v1alpha1.ConditionReasonAllowed)

				for _, size := range []int64{81, 82} {
					next := (&unstructured.Unstructured{Object: want["a"]}).DeepCopy()
					set(size, "spec", "size")(next.Object)
					want["a"] = next.Object
					s.reconcile(want)
					s.wantReason(v1alpha1.ConditionReasonHeld) // nothing requested it
					s.annotate(s.suggested()[0], "once")
					s.reconcile(want)
					s.stable(want)
					s.wantReason(v1alpha1.ConditionReasonAllowed)
				}

				s.update("a", "kubectl-edit", set("other", "spec", "mode"))
				s.stable(want)
				s.wantReason(v1alpha1.ConditionReasonAllowed) // it is not composed
				s.update("a", "kubectl-edit", set("other.example.org", "spec", "host"))
				s.reconcile(want)
				s.wantReason(v1alpha1.ConditionReasonHeld)
			})
		}
	}
}
