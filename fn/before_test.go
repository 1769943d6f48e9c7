package fn

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// mixedStage holds tier platinum of a, an unrequested change, when the size is changed by an intent.
func mixedStage(t *testing.T) (*stage, desire) {
	t.Helper()
	s := newStage(t, enforce)
	want := desire{"a": database(1, "tier", "gold"), "b": plain("x")}
	s.reconcile(want)
	s.settle(want)
	want["a"] = database(1, "tier", "platinum")
	s.reconcile(want)
	s.wantWrites("hold a")
	s.stable(want)
	return s, want
}

// intent of another size by a user, a minute later.
func (s *stage) resize(size int64) {
	s.now = s.now.Add(time.Minute)
	s.intend(size)
}

func (s *stage) wantField(want any, name string, path ...string) {
	s.t.Helper()
	if got := s.field(name, path...); got != want {
		s.t.Errorf("%s of %s: want %v, got %v", strings.Join(path, "."), name, want, got)
	}
}

// TestHeldStaysHeld covers KR-05-55, KR-05-56, KR-05-58, KR-05-59: a held revision
// does not ride on the next unrelated change.
func TestHeldStaysHeld(t *testing.T) {
	s, want := mixedStage(t)
	id := s.held("a").ID

	s.resize(2)
	want["a"] = database(2, "tier", "platinum")
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantField(int64(2), "a", "spec", "forProvider", "size")
	s.wantField("gold", "a", "spec", "forProvider", "tier")
	s.wantReason(v1alpha1.ConditionReasonHeld)
	h := s.held("a")
	if h == nil || h.ID != id || !h.Before || h.Since.Generation != 1 || !cmp.Equal(h.Paths, []string{"spec.forProvider.tier"}) {
		t.Errorf("held: %+v", h)
	}
	if hops := s.trace("a"); len(hops) != 2 || hops[0].Generation != 2 {
		t.Errorf("trace of what the intent caused: %+v", hops)
	}
	s.stable(want)

	// Another intent before this one has settled.
	s.resize(3)
	want["a"] = database(3, "tier", "platinum")
	s.reconcile(want)
	s.wantField(int64(3), "a", "spec", "forProvider", "size")
	s.wantField("gold", "a", "spec", "forProvider", "tier")

	// The composite settles; what comes then is drift, and the id is that of all of it.
	s.settle(want)
	if h := s.held("a"); h == nil || h.Before || h.ID != id {
		t.Errorf("held after settling: %+v", h)
	}
	want["b"] = plain("y")
	s.reconcile(want)
	s.wantWrites("hold b")

	// Approved once, by the id from the beginning.
	s.annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "once")
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantField("platinum", "a", "spec", "forProvider", "tier")
	s.stable(want)
}

// A composite that settled does not initialize again where the one write is lost that would have
// stored that it did (KR-05-55, KR-09-10).
func TestHeldAfterALostWrite(t *testing.T) {
	s, want := mixedStage(t)
	want["b"] = plain("y") // held, too
	s.reconcile(want)
	s.resize(2)
	want["a"], want["b"] = database(2, "tier", "platinum"), plain("y")
	want["b"]["spec"].(map[string]any)["size"] = int64(2)
	lost := s.live["a"]
	s.reconcile(want)
	s.live["a"] = lost
	s.notReady()
	s.reconcile(want)
	s.notReady()
	s.reconcile(want)
	s.wantField(int64(2), "a", "spec", "forProvider", "size")
	s.wantField("gold", "a", "spec", "forProvider", "tier")
	s.wantField("x", "b", "spec", "value")
}

// notReady: the composite has not converged.
func (s *stage) notReady() {
	list, _, _ := unstructured.NestedSlice(s.xr.Object, "status", "conditions")
	for _, e := range list {
		if c := e.(map[string]any); c["type"] == "Ready" {
			c["status"] = "False"
		}
	}
	_ = unstructured.SetNestedSlice(s.xr.Object, list, "status", "conditions")
}

// TestHeldAcrossIntents covers KR-05-58: approved within a larger change, by an approval
// from before the intent.
func TestHeldAcrossIntents(t *testing.T) {
	s, want := mixedStage(t)
	s.now = s.now.Add(time.Minute)
	s.annotate(v1alpha1.AnnotationKeyApprovePrefix+s.held("a").ID, "once")
	s.resize(2)
	want["a"] = database(2, "tier", "platinum")
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantField(int64(2), "a", "spec", "forProvider", "size")
	s.wantField("platinum", "a", "spec", "forProvider", "tier")
	s.stable(want)

	// It is used: the same difference again is another occurrence.
	s.settle(want)
	want["a"] = database(2, "tier", "gold")
	s.reconcile(want)
	s.wantField("platinum", "a", "spec", "forProvider", "tier")
}

// TestHeldValueChanged covers KR-05-57: what an intent changes the desired value of passes.
func TestHeldValueChanged(t *testing.T) {
	s, want := mixedStage(t)
	s.resize(2)
	want["a"] = database(2, "tier", "diamond")
	s.reconcile(want)
	s.wantField("diamond", "a", "spec", "forProvider", "tier")
	s.wantReason(v1alpha1.ConditionReasonAllowed)
	if _, _, message := s.condition(); !strings.Contains(message, "passes with both causes") {
		t.Errorf("no warning: %s", message)
	}
	if h := s.held("a"); h != nil {
		t.Errorf("still held: %+v", h)
	}
}

// A freeze in between makes no intent of what was held before it, and ends nothing (KR-05-55).
func TestHeldThroughFreeze(t *testing.T) {
	s, want := mixedStage(t)
	s.annotate(v1alpha1.AnnotationKeyFreeze, "true")
	s.reconcile(want)
	s.stable(want)
	s.resize(2)
	want["a"] = database(2, "tier", "platinum")
	s.reconcile(want)
	s.wantField(int64(1), "a", "spec", "forProvider", "size")
	s.annotate(v1alpha1.AnnotationKeyFreeze, "")
	s.reconcile(want)
	s.wantField(int64(2), "a", "spec", "forProvider", "size")
	s.wantField("gold", "a", "spec", "forProvider", "tier")
}

// Creations and removals stay held, whatever else the intent changes (KR-05-55).
func TestHeldCreationAndRemoval(t *testing.T) {
	s, want := settledStage(t)
	want["c"] = plain("z")
	delete(want, "b")
	s.reconcile(want)
	s.stable(want)
	s.resize(2)
	want["a"] = database(2)
	want["d"] = plain("requested")
	s.reconcile(want)
	s.wantField(int64(2), "a", "spec", "forProvider", "size")
	if s.live["b"] == nil || s.live["c"] != nil || s.live["d"] == nil {
		t.Errorf("want a, b and d, got %d", len(s.live))
	}
	s.settle(want)
	if s.live["b"] == nil || s.live["c"] != nil {
		t.Errorf("after settling: want a, b and d, got %d", len(s.live))
	}
	for _, key := range s.suggested() {
		s.annotate(key, "once")
	}
	s.reconcile(want)
	if s.live["b"] != nil || s.live["c"] == nil {
		t.Errorf("approved: want a, c and d, got %d", len(s.live))
	}
}

// Fields that were added and removed, and lists, which are one path each (KR-05-56).
func TestHeldShapes(t *testing.T) {
	spec := func(fields ...any) map[string]any {
		o := plain("x")
		m := map[string]any{}
		for i := 0; i+1 < len(fields); i += 2 {
			m[fields[i].(string)] = fields[i+1]
		}
		o["spec"] = m
		return o
	}
	service := func(target int64, further ...any) map[string]any {
		ports := append(further, map[string]any{"port": int64(80), "targetPort": target})
		return map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"ports": ports}}
	}
	https := map[string]any{"port": int64(443), "targetPort": int64(8443)}
	cases := map[string]struct {
		reason                string
		first, drift, mix, is map[string]any
	}{
		"Added": {reason: "a field that is added stays away", first: spec("size", int64(1)),
			drift: spec("size", int64(1), "zone", map[string]any{"a": "b"}),
			mix:   spec("size", int64(2), "zone", map[string]any{"a": "b"}), is: spec("size", int64(2))},
		"AddedBelow": {reason: "below a map that the intent adds", first: spec(), drift: spec("zone", map[string]any{"a": "b"}),
			mix: spec("zone", map[string]any{"a": "b", "c": "d"}), is: spec("zone", map[string]any{"c": "d"})},
		"Removed": {reason: "a field that is removed stays", first: spec("size", int64(1), "tier", "gold"),
			drift: spec("size", int64(1)),
			mix:   spec("size", int64(2)), is: spec("size", int64(2), "tier", "gold")},
		"List": {reason: "a list is one path", first: spec("size", int64(1), "l", []any{"a"}),
			drift: spec("size", int64(1), "l", []any{"a", "b"}),
			mix:   spec("size", int64(2), "l", []any{"a", "b"}), is: spec("size", int64(2), "l", []any{"a"})},
		"MergeKeys": {reason: "an item of a list by its merge key", first: service(1), drift: service(2), mix: service(2, https), is: service(1, https)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, enforce)
			want := desire{"a": database(1), "b": tc.first}
			s.reconcile(want)
			s.settle(want)
			want["b"] = tc.drift
			s.reconcile(want)
			s.stable(want)
			s.resize(2)
			want["b"] = tc.mix
			s.reconcile(want)
			if d := cmp.Diff(tc.is["spec"], s.live["b"].Object["spec"]); d != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, d)
			}
			s.reconcile(want) // with the id of what is left
			s.stable(want)
			s.settle(want)
			if d := cmp.Diff(tc.is["spec"], s.live["b"].Object["spec"]); d != "" {
				t.Errorf("%s: after settling: -want +got\n%s", tc.reason, d)
			}
			for _, key := range s.suggested() {
				s.annotate(key, "once")
			}
			s.reconcile(want)
			if d := cmp.Diff(tc.mix["spec"], s.live["b"].Object["spec"]); d != "" {
				t.Errorf("%s: approved: -want +got\n%s", tc.reason, d)
			}
		})
	}
}
