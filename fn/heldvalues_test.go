package fn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// TestHeldValues covers KR-09-25: what is held is recorded with values that can be shown, within a bound, and without secret
// ones (KR-13-26).
func TestHeldValues(t *testing.T) {
	s, want := settledStage(t)
	s.input = `{"mode":"enforce","settleGrace":"10s","secretPaths":["spec.password"]}`
	spec := map[string]any{"password": "hunter2"}
	for i := range v1alpha1.MaxHeldPaths {
		spec[fmt.Sprintf("text%02d", i)] = strings.Repeat("y", 1000)
	}
	want["b"]["spec"] = spec
	s.reconcile(want)
	h := s.held("b")
	if h == nil || len(h.Paths) != v1alpha1.MaxHeldPaths || len(h.Difference) == 0 || len(h.Difference) >= len(h.Paths) {
		t.Fatalf("held: %+v", h)
	}
	size := 0
	for i, f := range h.Difference {
		if size += len(f.Path) + len(f.Old) + len(f.New); f.Path != h.Paths[i] {
			t.Errorf("%s is not path %d", f.Path, i)
		}
	}
	if size > v1alpha1.MaxHeldValues {
		t.Errorf("%d bytes of values", size)
	}
	if value := heldOf(s.live["b"]); strings.Contains(value, "hunter2") || !strings.Contains(value, "redacted") {
		t.Errorf("the secret value: %s", value)
	}
	s.stable(want)
}

// TestHeldCreationsGuarded covers KR-09-25: creations are listed where only Crossplane can list any, if there is such
// a resource.
func TestHeldCreationsGuarded(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"a": database(1), "c": plain("x")}
	s.reconcile(want)
	s.settle(want)
	s.update("c", "kausality", func(o map[string]any) {
		ssa.Child(ssa.Child(o, "metadata"), "annotations")[v1alpha1.AnnotationKeyUpdaters] = "13c7u"
	})
	want["b"] = plain("y")
	s.reconcile(want)
	on := func(name string) string { return s.live[name].GetAnnotations()[v1alpha1.AnnotationKeyHeldCreations] }
	if on("a") != "" || on("c") == "" {
		t.Errorf("on the one that is not guarded: %q, on the other: %q", on("a"), on("c"))
	}
	if s.live["a"].GetAnnotations()[v1alpha1.AnnotationKeySettledIntent] == "" {
		t.Error("what else is remembered moved")
	}
}

// TestHeldEdit covers KR-07-14: what the function holds names the edit that it would revert, and the revision beside it only where it changes more. The
// edit stays named while the function keeps the edited value, which Crossplane applies.
func TestHeldEdit(t *testing.T) {
	s := newStage(t, enforce)
	want := desire{"a": database(1)}
	s.reconcile(want)
	s.settle(want)
	s.update("a", "kubectl-edit", func(o map[string]any) {
		ssa.Child(ssa.Child(o, "spec"), "forProvider")["size"] = int64(99)
	})
	causes := func() (out []v1alpha1.CauseKind) {
		h := s.held("a")
		if h == nil {
			t.Fatal("nothing is held")
		}
		for _, c := range h.Causes {
			out = append(out, c.Kind)
			if c.Author != "" {
				t.Errorf("an author, who may be known later: %+v", c)
			}
		}
		return out
	}
	for range 2 {
		s.reconcile(want)
		if got := causes(); len(got) != 1 || got[0] != v1alpha1.CauseEdit {
			t.Errorf("the edit alone: %v", got)
		}
	}
	s.stable(want)
	ssa.Child(want["a"]["spec"].(map[string]any), "forProvider")["tier"] = "gold"
	s.reconcile(want)
	if got := causes(); len(got) < 2 || got[0] != v1alpha1.CauseEdit {
		t.Errorf("the edit and what composes: %v", got)
	}
}
