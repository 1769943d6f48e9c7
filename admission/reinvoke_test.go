package admission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A hop that we wrote into this very request, and nothing that looks like one (KR-05-25).
func TestReinvokedHop(t *testing.T) {
	own := func(change func(*v1alpha1.Hop)) fx.Mod {
		h := trace.Hop(byCrossplane(Update, fx.Instance()).Ref(), 4, fx.Crossplane.Name, fx.Noon)
		change(&h)
		return fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Composite(), 5, "alice"), h}.String())
	}
	same := func(*v1alpha1.Hop) {}
	cases := map[string]struct {
		reason string
		req    *Request
		want   bool
	}{
		"Ours": {reason: "what the first decision wrote", req: byCrossplane(Update, fx.Instance(), fx.Resize("l"), own(same)), want: true},
		"SecondsAgo": {reason: "a slow webhook came in between",
			req: byCrossplane(Update, fx.Instance(), own(func(h *v1alpha1.Hop) { h.Timestamp.Time = fx.Noon.Add(-10 * time.Second) })), want: true},
		"First":   {reason: "the first decision finds the stored trace", req: byCrossplane(Update, fx.Instance(), fx.Resize("l"))},
		"Dropped": {reason: "no trace at all", req: byCrossplane(Update, fx.Instance(), fx.Unannotate(v1alpha1.AnnotationKeyTrace))},
		"Old": {reason: "a backup's hop",
			req: byCrossplane(Update, fx.Instance(), own(func(h *v1alpha1.Hop) { h.Timestamp.Time = fx.Noon.Add(-time.Hour) }))},
		"User": {reason: "another user's hop",
			req: byCrossplane(Update, fx.Instance(), own(func(h *v1alpha1.Hop) { h.User = "alice" }))},
		"Generation": {reason: "that of another write",
			req: byCrossplane(Update, fx.Instance(), own(func(h *v1alpha1.Hop) { h.Generation = 3 }))},
		"Kind": {reason: "copied from a parent",
			req: byCrossplane(Update, fx.Instance(), own(func(h *v1alpha1.Hop) { h.Kind = "XDatabase" }))},
		"Delete": {reason: "has no object", req: byCrossplane(Delete, fx.Instance())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.req.Reinvoked() != nil; got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// A later webhook changed a field of the MR: the author's value is still the
// author's, and the new change is decided as well.
func TestReinvokedAfterMutation(t *testing.T) {
	w := setting{xr: []fx.Mod{fx.Unsettled}}.world()
	first := byCrossplane(Update, fx.Instance(), fx.Resize("l"), fx.Policies("*"))
	result := apply(first.Object, decide(t, w, enforced(), first))
	again := copyRequest(first)
	again.Object, again.Time = fx.With(result, fx.Set("us", "spec", "forProvider", "region")), fx.Noon.Add(time.Second)
	d := decide(t, w, enforced(), again)
	got := maskedOf(apply(again.Object, d))
	want := masked{[]string{fx.Observe, fx.Update}, `["*"]`, v1alpha1.GateOpen, []v1alpha1.Verb{v1alpha1.VerbUpdate}, 4,
		[]string{"spec.forProvider.region", "spec.forProvider.size"}, "Changed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// Two changes behind the mask, of the same user in the same second, leave the same
// hop. The second one is recognised when it is decided again all the same.
func TestReinvokedSameHop(t *testing.T) {
	w := setting{xr: []fx.Mod{fx.Unsettled}}.world()
	first := byCrossplane(Update, fx.Instance(), fx.Policies(fx.Observe, fx.Create, fx.Update, fx.Delete))
	stored := persisted(first, apply(first.Object, decide(t, w, enforced(), first)))
	second := byCrossplane(Update, stored, fx.Policies(fx.Observe, fx.Create, fx.Update))
	result := apply(second.Object, decide(t, w, enforced(), second))
	if identity.Annotation(result, v1alpha1.AnnotationKeyTrace) != identity.Annotation(stored, v1alpha1.AnnotationKeyTrace) ||
		stored.GetGeneration() != fx.Instance().GetGeneration() {
		t.Fatalf("no case of it: %v, %v", stored, result)
	}
	again := copyRequest(second)
	again.Object = result
	got := apply(result, decide(t, w, enforced(), again))
	if diff := cmp.Diff(result.Object, got.Object); diff != "" {
		t.Errorf("-once, +twice:\n%s", diff)
	}
	if author := identity.Annotation(got, v1alpha1.AnnotationKeyManagementPolicies); author != `["Observe","Create","Update"]` {
		t.Errorf("the author wrote %s", author)
	}
	// What is stored and written as it is stored is no reinvocation.
	same := byCrossplane(Update, result, fx.Annotate("note", "x"))
	if got := apply(same.Object, decide(t, w, enforced(), same)); identity.Annotation(got,
		v1alpha1.AnnotationKeyManagementPolicies) != `["Observe","Create","Update"]` {
		t.Errorf("a write of something else: %v", got.GetAnnotations())
	}
}
