package fn

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

func (s *stage) held(name string) *v1alpha1.Held {
	s.t.Helper()
	value := heldOf(s.live[name])
	if value == "" {
		return nil
	}
	out := &v1alpha1.Held{}
	if err := json.Unmarshal([]byte(value), out); err != nil {
		s.t.Fatalf("held annotation of %s: %v", name, err)
	}
	return out
}

// What is held of a resource stands on it as long as it is held, changes with
// the difference and with nothing else, and goes with it.
func TestHeldAnnotation(t *testing.T) {
	s, want := settledStage(t)
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	key := s.suggested()[0]
	id := key[len(v1alpha1.AnnotationKeyApprovePrefix):]
	expected := &v1alpha1.Held{
		Reason: "Drift", Operation: "UPDATE", Paths: []string{"spec.value"}, ID: id,
		Approve: "kubectl annotate -n shop xdatabase.example.org db " + key + "=once",
	}
	if d := cmp.Diff(expected, s.held("b")); d != "" {
		t.Errorf("held: -want +got\n%s", d)
	}
	if h := s.held("a"); h != nil {
		t.Errorf("nothing is held of a: %+v", h)
	}
	s.stable(want)

	// Another difference under the same paths is another id.
	want["b"] = plain("z")
	s.reconcile(want)
	s.wantWrites("hold b")
	if h := s.held("b"); h.ID == id {
		t.Errorf("another difference has the same id: %+v", h)
	}

	// Withdrawn.
	want["b"] = plain("x")
	s.reconcile(want)
	s.wantWrites("release b")
	s.stable(want)

	// Approved.
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")
	s.annotate(key, "once")
	s.reconcile(want)
	s.wantWrites("update b")
	if h := s.held("b"); h != nil {
		t.Errorf("still held after the approval: %+v", h)
	}
	s.stable(want)
}

// While frozen no approval helps, so none is suggested; with an intent the same
// change passes afterwards.
func TestHeldWhileFrozen(t *testing.T) {
	s, want := settledStage(t)
	s.annotate(v1alpha1.AnnotationKeyFreeze, "true")
	s.now = s.now.Add(time.Minute)
	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	h := s.held("a")
	if h == nil || h.Reason != "Frozen" || h.Approve != "" || !cmp.Equal(h.Paths, []string{"spec.forProvider.size"}) {
		t.Errorf("held: %+v", h)
	}
	s.annotate(v1alpha1.AnnotationKeyFreeze, "")
	s.reconcile(want)
	if h := s.held("a"); h != nil {
		t.Errorf("still held: %+v", h)
	}
}

// The paths are bounded.
func TestHeldPathsAreBounded(t *testing.T) {
	s, want := settledStage(t)
	spec := map[string]any{}
	for i := range 3 * v1alpha1.MaxHeldPaths {
		spec[fmt.Sprintf("field%02d", i)] = "y"
	}
	want["b"]["spec"] = spec
	s.reconcile(want)
	if h := s.held("b"); h == nil || len(h.Paths) != v1alpha1.MaxHeldPaths {
		t.Errorf("held: %+v", h)
	}
}

// A Composition cannot say that something is held where nothing is.
func TestHeldIsNotTheCompositions(t *testing.T) {
	s, want := settledStage(t)
	want["b"]["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.AnnotationKeyHeld: `{"reason":"Drift"}`}}
	s.reconcile(want)
	if h := s.held("b"); h != nil {
		t.Errorf("held: %+v", h)
	}
}
