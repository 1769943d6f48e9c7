package fn

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Without a webhook the hop of the composite's intent carries its trace labels,
// as they were when the intent was first seen (KR-09-09).
func TestDerivedIntentHasLabels(t *testing.T) {
	ticket := v1alpha1.AnnotationKeyTraceLabelPrefix + "ticket"
	labels := func(s *stage, name, want string) {
		t.Helper()
		if d := cmp.Diff(map[string]string{"ticket": want}, s.trace(name)[0].Labels); d != "" {
			t.Errorf("labels of the composite's hop in %s: -want +got\n%s", name, d)
		}
	}
	s := newStage(t, enforce)
	s.annotate(ticket, "SHOP-1")
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	labels(s, "a", "SHOP-1")
	s.settle(want)

	// Another label alone is no intent, and changes no hop of the last one, also
	// in what the same intent brings later.
	s.annotate(ticket, "SHOP-2")
	s.stable(want)
	s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Thing","name":"*","mode":"always"}]`)
	want["b"] = plain("y")
	s.reconcile(want)
	labels(s, "b", "SHOP-1")

	s.now = s.now.Add(time.Minute)
	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	labels(s, "a", "SHOP-2")
	s.settle(want)
}
