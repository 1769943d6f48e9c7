package fn

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// What keeps an intent from settling (KR-03-07, KR-03-08): each case starts where nothing
// is missing but the grace period, which then goes by (KR-09-10).
func TestSettles(t *testing.T) {
	notReady := map[string]any{"conditions": []any{
		map[string]any{"type": "Synced", "status": "True"}, map[string]any{"type": "Ready", "status": "False"},
	}}
	cases := map[string]struct {
		reason string
		change func(s *stage)
		// passed since; a minute where zero.
		passed time.Duration
		want   bool
	}{
		"AtRest":       {reason: "everything is ready, and the grace period is over", want: true},
		"Grace":        {reason: "the grace period is not over", passed: 9 * time.Second},
		"NotReady":     {reason: "the composite is not ready", change: func(s *stage) { s.flap() }},
		"ChildUnready": {reason: "a resource that the intent changed is not ready", change: func(s *stage) { s.setStatus("a", notReady) }},
		"NotObserved": {reason: "Crossplane has not seen the intent", change: func(s *stage) {
			s.now = s.now.Add(time.Minute)
			s.intend(2)
		}},
		"GateOpen": {reason: "a gate is open", change: func(s *stage) {
			ssa.Child(ssa.Child(s.live["a"].Object, "metadata"), "annotations")[v1alpha1.AnnotationKeyGate] = `{"state":"open"}`
		}},
		"Frozen": {reason: "the composite is frozen, as its condition shows", change: func(s *stage) {
			s.annotate(v1alpha1.AnnotationKeyFreeze, "true")
			s.reconcile(desire{"a": database(7), "b": plain("x")})
		}},
		"Nothing": {reason: "it composes nothing yet", change: func(s *stage) { s.live = map[string]*unstructured.Unstructured{} }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, enforce)
			want := desire{"a": database(1), "b": plain("x")}
			s.reconcile(want)
			s.ready()
			if tc.change != nil {
				tc.change(s)
			}
			if tc.passed == 0 {
				tc.passed = time.Minute
			}
			s.now = s.now.Add(tc.passed)
			req := s.request(want)
			xr := ssa.Unstructured(ssa.Object(req.GetObserved().GetComposite().GetResource()))
			r := newRun(config{mode: v1alpha1.ModeEnforce, grace: 10 * time.Second}, s.now, xr, req, nil)
			if r.composite.Latched != tc.want {
				t.Errorf("%s: want settled %t, got %t", tc.reason, tc.want, r.composite.Latched)
			}
		})
	}
}

// A write to any resource restarts the grace period (KR-03-08).
func TestGraceRestarts(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"a": database(1), "b": plain("x")}
	s.reconcile(want)
	s.ready()
	s.now = s.now.Add(9 * time.Second)
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("update b")
	s.setStatus("b", map[string]any{"phase": "done"})
	s.now = s.now.Add(9 * time.Second)
	s.reconcile(want)
	s.wantWrites()
	s.now = s.now.Add(2 * time.Second)
	s.reconcile(want)
	s.wantWrites("annotate a", "annotate b")
}

// The first run for an intent that came during a reconcile is not held by what that one reported (KR-03-10).
func TestOvertaken(t *testing.T) {
	overtaken := func(t *testing.T, late time.Duration) (*stage, desire) {
		t.Helper()
		s, want := newStage(t, enforce), desire{"a": database(1)}
		s.reconcile(want)
		s.settle(want)
		s.intend(2)
		s.ready() // as the reconcile reports that began before
		s.now = s.now.Add(late)
		return s, want
	}
	t.Run("CarriedOut", func(t *testing.T) {
		s, want := overtaken(t, 5*time.Minute)
		want["a"] = database(2)
		s.reconcile(want)
		s.wantWrites("update a")
		s.ready()
		s.now = s.now.Add(time.Minute)
		want["a"] = database(3)
		s.reconcile(want)
		s.wantWrites("hold a")
	})
	t.Run("ChangesNothing", func(t *testing.T) {
		s, want := overtaken(t, 5*time.Minute)
		s.reconcile(want)
		s.wantWrites("annotate a")
		want["a"] = database(3)
		s.reconcile(want)
		s.wantWrites("hold a")
	})
	t.Run("LongAgo", func(t *testing.T) {
		s, want := overtaken(t, 7*time.Minute)
		want["a"] = database(2)
		s.reconcile(want)
		s.wantWrites("hold a")
	})
}
