package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/change"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// region of the managed resource.
func region(r string) fx.Mod { return fx.Set(r, "spec", "forProvider", "region") }

// remembering options.
func remembering() Options {
	o := enforced()
	o.Remember, o.Separates = true, true
	return o
}

// refusedRegion is what is remembered of a refused change of the region to "us".
func refusedRegion(t *testing.T) (held *Held, id string) {
	t.Helper()
	d := decide(t, setting{}.world(), remembering(), byCrossplane(Update, fx.Instance(), region("us")))
	if d.Allowed || d.Drift == nil || d.Drift.Since.Generation != 5 {
		t.Fatalf("drift: %s, remembered %+v", d.Reason, d.Drift)
	}
	return d.Drift, d.Digest.ID()
}

// asFunction is the request of the composition function.
func asFunction(r *Request) *Request {
	out := *r
	out.Actor = ActorParentController
	return &out
}

// granted is an allowance for the region that the intent of a generation of the composite granted.
func granted(generation int) fx.Mod {
	return fx.Annotate(v1alpha1.AnnotationKeyAllowances, fmt.Sprintf(
		`[{"kind":"Instance","relation":"ControllerChild","verbs":["Update"],"mutations":[{"jsonPath":"spec.forProvider.region"}],"generation":%d}]`, generation))
}

// TestHeldMixedCauses covers KR-05-62, KR-05-63, KR-05-64, KR-05-68: what the webhook answers to a write that has what was
// held before an intent.
func TestHeldMixedCauses(t *testing.T) {
	held, id := refusedRegion(t)
	mixed := []fx.Mod{region("us"), fx.Resize("l")}
	other := func(r *Request) *Request { return by(r, fx.Crossplane, "controller") }
	cases := map[string]struct {
		reason string
		mods   []fx.Mod
		held   *Held
		causes v1alpha1.MixedCauses
		by     func(*Request) *Request
		xr     []fx.Mod
		log    bool
		want   outcome.Reason
		// changes that pass, and whether the rest is kept as it is stored.
		passes []string
		kept   bool
		text   string
	}{
		"Composed": {reason: "Hold is the default of Crossplane's apply", mods: mixed, want: outcome.ReasonExpected, kept: true,
			passes: []string{"spec.forProvider.size"}, text: "the stored values are kept: Drift: changing spec.forProvider.region"},
		"ComposedAlone": {reason: "at rest it is a write without a change, so that the composite settles", mods: []fx.Mod{region("us")},
			want: outcome.ReasonNoChange, kept: true, text: "held before the last intent"},
		"ComposedWhole": {reason: "more paths than are remembered", mods: mixed, held: &Held{Whole: true}, want: outcome.ReasonNoChange, kept: true},
		"ComposedRefuse": {reason: "the policy refuses", mods: mixed, causes: v1alpha1.MixedCausesRefuse, want: outcome.ReasonDrift,
			text: "changing spec.forProvider.region of Instance inst"},
		"ComposedAdmit": {reason: "the policy admits", mods: mixed, causes: v1alpha1.MixedCausesAdmit, want: outcome.ReasonExpected,
			passes: []string{"spec.forProvider.region", "spec.forProvider.size"}, text: "passes with both causes"},
		"AdmitAlone": {reason: "what is not mixed is drift", mods: []fx.Mod{region("us")}, causes: v1alpha1.MixedCausesAdmit, want: outcome.ReasonDrift},
		"AdmitRejected": {reason: "a rejection holds", mods: mixed, causes: v1alpha1.MixedCausesAdmit, want: outcome.ReasonRejected,
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)}},
		"Other": {reason: "another controller might write repeatedly", mods: mixed, by: other, want: outcome.ReasonDrift,
			text: "the same write has what the intent causes"},
		"OtherHold": {reason: "unless the policy holds", mods: mixed, by: other, causes: v1alpha1.MixedCausesHold, want: outcome.ReasonExpected, kept: true,
			passes: []string{"spec.forProvider.size"}},
		"OtherAdmit": {reason: "or admits", mods: mixed, by: other, causes: v1alpha1.MixedCausesAdmit, want: outcome.ReasonExpected,
			passes: []string{"spec.forProvider.region", "spec.forProvider.size"}},
		"OtherAlone": {reason: "what is not mixed is drift", mods: []fx.Mod{region("us")}, by: other, want: outcome.ReasonDrift},
		"Rejected": {reason: "a rejection is kept as well", mods: mixed, want: outcome.ReasonExpected, kept: true, passes: []string{"spec.forProvider.size"},
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)}},
		"Approved": {reason: "by its id", mods: mixed, xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "always")}, want: outcome.ReasonApproved,
			passes: []string{"spec.forProvider.region", "spec.forProvider.size"}},
		"ApprovedAlone": {reason: "by its id", mods: []fx.Mod{region("us")}, xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "always")},
			want: outcome.ReasonApproved, passes: []string{"spec.forProvider.region"}},
		"Requested": {reason: "an intent since then has granted an allowance for it (KR-05-68)", mods: mixed, xr: []fx.Mod{granted(6)},
			want: outcome.ReasonExpected, passes: []string{"spec.forProvider.region", "spec.forProvider.size"}},
		"RequestedBefore": {reason: "the allowance is of the intent after which it was held", mods: mixed, xr: []fx.Mod{granted(5)},
			want: outcome.ReasonExpected, kept: true, passes: []string{"spec.forProvider.size"}},
		"Log": {reason: "all of it passes", mods: mixed, log: true, want: outcome.ReasonDriftLogged, text: "drift: ",
			passes: []string{"spec.forProvider.region", "spec.forProvider.size"}},
		"LogAlone": {reason: "all of it passes", mods: []fx.Mod{region("us")}, log: true, want: outcome.ReasonDriftLogged,
			passes: []string{"spec.forProvider.region"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, fx.Instance(), tc.mods...)
			if req.Held = tc.held; req.Held == nil {
				req.Held = held
			}
			if tc.by != nil {
				req = tc.by(req)
			}
			options := stubs{Options: remembering()}
			options.settings = func(parent.Ref, map[string]string) settings.Settings {
				return settings.Settings{MixedCauses: tc.causes}
			}
			if tc.log {
				options.DefaultMode = v1alpha1.ModeLog
			}
			w := setting{xr: append([]fx.Mod{fx.Unsettled}, tc.xr...)}.world()
			d, err := options.of(w).Evaluate(t.Context(), req)
			if err != nil || d.Reason != tc.want || (d.Held != nil) != tc.kept {
				t.Fatalf("%s: got %s, part %+v, %v: %s", tc.reason, d.Reason, d.Held, err, d.Message)
			}
			if text := strings.Join(append(d.Warnings, d.Message), "\n"); !strings.Contains(text, tc.text) {
				t.Errorf("%s: %q", tc.reason, text)
			}
			after := req.Object
			if d.Held != nil {
				after = d.Rest
				r, rejected := d.Held.Report, d.Held.Reason == outcome.ReasonRejected
				if r == nil != rejected || r != nil && (!r.Separated || len(r.Held.Drift) == 0) {
					t.Errorf("%s: report %+v", tc.reason, r)
				}
			}
			if got := change.Paths(change.Diff(fx.Instance().Object, after.Object, false)); d.Allowed && !cmp.Equal(got, tc.passes, cmpopts.EquateEmpty()) {
				t.Errorf("%s: passes %v", tc.reason, got)
			}
		})
	}
}

// TestHeldBefore covers KR-05-55, KR-05-56, KR-05-57, KR-05-58.
func TestHeldBefore(t *testing.T) {
	held, id := refusedRegion(t)
	approve := func(mode string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, mode) }
	given := func(generation string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyApprovals, `[{"apiVersion":"aws.example.org/v1","kind":"Instance","name":"inst","digest":"`+
			id+`","generation":`+generation+`,"mode":"generation"}]`)
	}
	cases := map[string]struct {
		reason  string
		xr      []fx.Mod
		mods    []fx.Mod
		held    *Held
		options func(*Options)
		by      func(*Request) *Request
		want    outcome.Reason
		// part is the reason for which the held part is refused.
		part   outcome.Reason
		before bool
		warns  string
	}{
		"Alone": {reason: "an intent that changes nothing of it does not allow it", mods: []fx.Mod{region("us")}, held: held, want: outcome.ReasonDrift, before: true,
			by: asFunction},
		"Mixed": {reason: "what the intent causes passes, the rest is refused", mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held,
			want: outcome.ReasonExpected, part: outcome.ReasonDrift},
		"Caused":  {reason: "a path that was not held", mods: []fx.Mod{fx.Resize("l")}, held: held, want: outcome.ReasonExpected},
		"Unknown": {reason: "nothing was held", mods: []fx.Mod{region("us"), fx.Resize("l")}, want: outcome.ReasonExpected},
		"Both": {reason: "the intent causes another value", mods: []fx.Mod{region("ap"), fx.Resize("l")}, held: held, want: outcome.ReasonExpected,
			warns: "passes with both causes"},
		"Whole": {reason: "more paths than are remembered", mods: []fx.Mod{region("ap"), fx.Resize("l")}, held: &Held{Whole: true},
			want: outcome.ReasonDrift, before: true, by: asFunction},
		"Approved": {reason: "the id of the held paths approves them within a larger change", xr: []fx.Mod{approve("always")},
			mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held, want: outcome.ReasonApproved},
		"ApprovedAlone": {reason: "and alone", xr: []fx.Mod{approve("always")}, mods: []fx.Mod{region("us")}, held: held, want: outcome.ReasonApproved},
		"ApprovedEarlier": {reason: "an approval from since it was first held", xr: []fx.Mod{given("5")},
			mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held, want: outcome.ReasonApproved},
		"ApprovedTooEarly": {reason: "one from before that", xr: []fx.Mod{given("4")}, mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held,
			want: outcome.ReasonExpected, part: outcome.ReasonDrift},
		"Rejected": {reason: "a rejection holds for the part", xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyRejections, rejectAll)},
			mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held, want: outcome.ReasonExpected, part: outcome.ReasonRejected},
		"Frozen": {reason: "a freeze holds everything", xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyFreeze, freezeValue)},
			mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held, want: outcome.ReasonFrozen},
		"Log": {reason: "both pass, as drift", mods: []fx.Mod{region("us"), fx.Resize("l")}, held: held, want: outcome.ReasonDriftLogged,
			options: func(o *Options) { o.DefaultMode = v1alpha1.ModeLog }, warns: "drift: "},
		"User": {reason: "another user's change is an intent of its own", mods: []fx.Mod{region("us")}, held: held, want: outcome.ReasonNewOrigin,
			by: func(r *Request) *Request { return by(r, fx.Alice, "kubectl") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, fx.Instance(), tc.mods...)
			if req.Held = tc.held; tc.by != nil {
				req = tc.by(req)
			}
			options := remembering()
			if tc.options != nil {
				tc.options(&options)
			}
			w := setting{xr: append([]fx.Mod{fx.Unsettled}, tc.xr...)}.world()
			d, err := evaluator(options, w).Evaluate(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if d.Reason != tc.want || d.Before != tc.before || (d.Held != nil) != (tc.part != "") {
				t.Fatalf("%s: got %s, before %t, part %+v: %s", tc.reason, d.Reason, d.Before, d.Held, d.Message)
			}
			if tc.warns != "" && !strings.Contains(strings.Join(d.Warnings, "\n"), tc.warns) {
				t.Errorf("%s: warnings %q", tc.reason, d.Warnings)
			}
			if !d.Allowed && tc.held != nil && d.Drift == nil {
				t.Errorf("%s: forgotten", tc.reason)
			}
			if d.Held == nil {
				return
			}
			if d.Held.Reason != tc.part || d.Held.Digest.ID() != id || !cmp.Equal(d.Held.Drift, held) || !d.Held.Before {
				t.Errorf("%s: part %s, id %s, %+v", tc.reason, d.Held.Reason, d.Held.Digest.ID(), d.Held.Drift)
			}
			if diff := change.Paths(change.Diff(fx.Instance().Object, d.Rest.Object, false)); !cmp.Equal(diff, []string{"spec.forProvider.size"}) {
				t.Errorf("%s: the rest changes %v", tc.reason, diff)
			}
			if d.Class != outcome.ClassExpected || len(d.Trace) < 2 {
				t.Errorf("%s: class %s, trace %s", tc.reason, d.Class, d.Trace)
			}
		})
	}
}

// TestHeldBesideARecord covers KR-05-60: what the webhook remembers alone is left out of an apply, whatever else the function recorded.
func TestHeldBesideARecord(t *testing.T) {
	held, _ := refusedRegion(t)
	record := v1alpha1.Held{Reason: "Drift", Operation: "UPDATE", HeldDrift: v1alpha1.HeldDrift{Drift: map[string]string{"spec.forProvider.zone": "1"}}}
	old := fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyHeld, annotation.MustMarshal(record)))
	req := byCrossplane(Update, old, region("us"), fx.Resize("l"))
	req.Held = held
	d, err := evaluator(remembering(), setting{xr: []fx.Mod{fx.Unsettled}}.world()).Evaluate(t.Context(), req)
	if err != nil || !d.Allowed || d.Held == nil {
		t.Fatalf("got %s, %v: %s", d.Reason, err, d.Message)
	}
	if diff := change.Paths(change.Diff(old.Object, d.Rest.Object, false)); !cmp.Equal(diff, []string{"spec.forProvider.size"}) {
		t.Errorf("the rest changes %v", diff)
	}
}

// TestHeldStored covers KR-05-60: an apply by the function that read the object before it recorded what it
// holds is refused, and one that separates what is held passes.
func TestHeldStored(t *testing.T) {
	held, id := refusedRegion(t)
	record := v1alpha1.Held{Reason: "Drift", Operation: "UPDATE", ID: id, HeldDrift: held.Drift()}
	old := fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyHeld, annotation.MustMarshal(record)))
	forget := fx.Unannotate(v1alpha1.AnnotationKeyHeld)
	cases := map[string]struct {
		reason string
		xr     []fx.Mod
		old    *unstructured.Unstructured
		mods   []fx.Mod
		by     func(*Request) *Request
		want   outcome.Reason
	}{
		"Remembered": {reason: "what a webhook remembers beside it ends nothing", mods: []fx.Mod{region("us"), fx.Resize("l"), forget}, want: outcome.ReasonDrift,
			by: func(r *Request) *Request {
				r.Held = &Held{Values: map[string]string{"spec.forProvider.region": "other"}}
				return r
			}},
		"Stale":     {reason: "it has what is held", mods: []fx.Mod{region("us"), fx.Resize("l"), forget}, want: outcome.ReasonDrift},
		"Separated": {reason: "it has not", mods: []fx.Mod{fx.Resize("l")}, want: outcome.ReasonExpected},
		"Caused":    {reason: "the intent causes another value", mods: []fx.Mod{region("ap"), forget}, want: outcome.ReasonExpected},
		"Approved": {reason: "by the id", xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+id, "always")},
			mods: []fx.Mod{region("us"), fx.Resize("l"), forget}, want: outcome.ReasonApproved},
		"Frozen": {reason: "a freeze is no drift", old: fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyHeld,
			`{"reason":"Frozen","operation":"UPDATE"}`)), mods: []fx.Mod{region("us"), forget}, want: outcome.ReasonExpected},
		"Unreadable": {reason: "what does not parse holds nothing", old: fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyHeld, `{`)),
			mods: []fx.Mod{region("us"), forget}, want: outcome.ReasonExpected},
		"User": {reason: "a user's change is an intent", mods: []fx.Mod{region("us")}, want: outcome.ReasonNewOrigin,
			by: func(r *Request) *Request { return by(r, fx.Alice, "kubectl") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.old == nil {
				tc.old = old
			}
			req := byCrossplane(Update, tc.old, tc.mods...)
			if tc.by != nil {
				req = tc.by(req)
			}
			w := setting{xr: append([]fx.Mod{fx.Unsettled}, tc.xr...)}.world()
			d, err := (&Evaluator{World: w, Options: enforced()}).Evaluate(t.Context(), req)
			if err != nil || d.Reason != tc.want || d.Held != nil {
				t.Fatalf("%s: got %s, %v: %s", tc.reason, d.Reason, err, d.Message)
			}
			if !d.Allowed && (d.Digest.ID() != id || d.Code != outcome.CodeComposed || d.Report == nil) {
				t.Errorf("%s: id %s, code %d, report %v", tc.reason, d.Digest.ID(), d.Code, d.Report)
			}
		})
	}
}

// Creations and deletions are held as a whole (KR-05-55).
func TestHeldOperations(t *testing.T) {
	for name, req := range map[string]*Request{
		"Create": byCrossplane(Create, fx.Unmasked()),
		"Delete": byCrossplane(Delete, fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyDeletion, "orphan"))),
	} {
		t.Run(name, func(t *testing.T) {
			first, err := (&Evaluator{World: setting{}.world(), Options: remembering()}).Evaluate(t.Context(), req)
			if err != nil || first.Allowed || first.Drift == nil || !first.Drift.Whole {
				t.Fatalf("drift: %s, remembered %+v, %v", first.Reason, first.Drift, err)
			}
			e := &Evaluator{World: setting{xr: []fx.Mod{fx.Unsettled}}.world(), Options: remembering()}
			if d, _ := e.Evaluate(t.Context(), req); !d.Allowed {
				t.Errorf("caused by the intent: %s", d.Message)
			}
			again := *req
			again.Held = first.Drift
			if d, _ := e.Evaluate(t.Context(), &again); d.Allowed || !d.Before || d.Digest.ID() != first.Digest.ID() || !cmp.Equal(d.Drift, first.Drift) {
				t.Errorf("held before: %s, id %s, %+v", d.Reason, d.Digest.ID(), d.Drift)
			}
		})
	}
}

// The external name is a path like any other (KR-05-56).
func TestHeldExternalName(t *testing.T) {
	name := func(n string) fx.Mod { return fx.Annotate(v1alpha1.AnnotationKeyExternalName, n) }
	old := fx.With(fx.Instance(), name("one"))
	first := decide(t, setting{}.world(), remembering(), byCrossplane(Update, old, name("two")))
	if first.Allowed || first.Drift == nil {
		t.Fatalf("drift: %s", first.Reason)
	}
	req := byCrossplane(Update, old, name("two"), fx.Resize("l"))
	req.Held = first.Drift
	d, err := (&Evaluator{World: setting{xr: []fx.Mod{fx.Unsettled}}.world(), Options: remembering()}).Evaluate(t.Context(), req)
	if err != nil || d.Held == nil || d.Held.Digest.ID() != first.Digest.ID() {
		t.Fatalf("%s, part %+v, %v", d.Reason, d.Held, err)
	}
	if got := d.Rest.GetAnnotations()[v1alpha1.AnnotationKeyExternalName]; got != "one" {
		t.Errorf("the rest has the external name %q", got)
	}
}

// What is remembered is bounded, and read back as it was written (KR-05-55).
func TestHeldRecord(t *testing.T) {
	var leaves []change.Leaf
	for i := range v1alpha1.MaxHeldDrift + 1 {
		leaves = append(leaves, change.Leaf{Path: "spec.f" + strings.Repeat("x", i), Value: "v"})
	}
	since := v1alpha1.SettledIntent{Generation: 3}
	few, many := (*Held)(nil).With(leaves[:2], false, since), (*Held)(nil).With(leaves, false, since)
	if got := HeldOf(few.Drift()); !cmp.Equal(got, few) {
		t.Errorf("want %+v, got %+v", few, got)
	}
	if got := HeldOf(many.Drift()); !got.Whole || !got.Has(change.Leaf{Path: "spec.other"}) {
		t.Errorf("more than the bound: %+v", got)
	}
	if got := HeldOf(v1alpha1.HeldDrift{}); got != nil || got.Still(leaves) != nil || len(got.Drift().Drift) > 0 {
		t.Errorf("nothing: %+v", got)
	}
	later := v1alpha1.SettledIntent{Generation: 9}
	if got := few.With(leaves[1:3], false, later); got.Since != since {
		t.Errorf("a part of it is still held, since %+v", got.Since)
	}
	if got := few.With(leaves[2:3], false, later); got.Since != later {
		t.Errorf("another difference, since %+v", got.Since)
	}
}

// TestHeldWarning covers KR-05-61.
func TestHeldWarning(t *testing.T) {
	condition := fx.Condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)
	size := fx.Set("l", "spec", "size")
	for name, tc := range map[string]struct {
		xr, change fx.Mod
		by         func(*Request) *Request
		want       bool
	}{
		"Held":       {xr: condition, change: size, want: true},
		"NoChange":   {xr: condition, change: fx.Annotate("a", "b")},
		"Allowed":    {xr: fx.Condition("Kausality", "True", v1alpha1.ConditionReasonAllowed, 0), change: size},
		"Controller": {xr: condition, change: size, by: func(r *Request) *Request { return by(r, fx.Crossplane, "apiextensions.crossplane.io/claim") }},
	} {
		t.Run(name, func(t *testing.T) {
			req := by(byCrossplane(Update, fx.With(fx.Composite(), tc.xr), tc.change), fx.Alice, "kubectl")
			if tc.by != nil {
				req = tc.by(req)
			}
			d := decide(t, setting{}.world(), enforced(), req)
			if got := strings.Contains(strings.Join(d.Warnings, "\n"), "remains held"); got != tc.want || !d.Allowed {
				t.Errorf("%s, warnings %q", d.Reason, d.Warnings)
			}
		})
	}
}

// TestFrozenWarning covers KR-05-61: who changes a frozen object learns that nothing follows from it yet.
func TestFrozenWarning(t *testing.T) {
	freeze := fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"anna","message":"audit"}`)
	size := fx.Set("l", "spec", "size")
	for name, tc := range map[string]struct {
		xr, change fx.Mod
		controller bool
		want       bool
	}{
		"Frozen":     {xr: freeze, change: size, want: true},
		"NotFrozen":  {xr: fx.Annotate("a", "b"), change: size},
		"NoChange":   {xr: freeze, change: fx.Annotate("a", "b")},
		"Ends":       {xr: freeze, change: func(o *unstructured.Unstructured) { size(o); o.SetAnnotations(nil) }},
		"Deleting":   {xr: func(o *unstructured.Unstructured) { freeze(o); fx.Deleting(o) }, change: size},
		"Controller": {xr: freeze, change: size, controller: true},
	} {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, fx.With(fx.Composite(), tc.xr), tc.change)
			if req = by(req, fx.Alice, "kubectl"); tc.controller {
				req = by(req, fx.Crossplane, "apiextensions.crossplane.io/claim")
			}
			d := decide(t, setting{}.world(), enforced(), req)
			if got := strings.Contains(strings.Join(d.Warnings, "\n"), "was frozen by anna (audit): this change is stored"); got != tc.want {
				t.Errorf("%s, warnings %q", d.Reason, d.Warnings)
			}
		})
	}
}

// TestHeldBelow covers KR-05-61 and KR-05-58: what is held below is named, up to a bound, and its approvals are kept.
func TestHeldBelow(t *testing.T) {
	size := fx.Set("l", "spec", "size")
	update := Below{Child: "Instance inst", Operation: Update, Paths: []string{"spec.forProvider.region"}, ID: "abc", Since: 5, Own: true}
	many := []Below{update, {Child: "Instance a", Operation: Create, ID: "c"}, {Child: "Instance b", Operation: Delete}, {Child: "Instance c"},
		{Child: "Instance d", Operation: Update, Paths: []string{"a", "b", "c", "d", "e", "f"}}, update, update}
	approval := `[{"kind":"Instance","name":"inst","digest":"abc","generation":5,"mode":"once"}]`
	for name, tc := range map[string]struct {
		below []Below
		mixed v1alpha1.MixedCauses
		by    func(*Request) *Request
		want  []string
		kept  bool
	}{
		"Nothing": {},
		"One":     {below: many[:1], want: []string{"spec.forProvider.region of Instance inst (abc); what", "remains held until it is approved"}, kept: true},
		"Admit":   {below: many[:1], mixed: v1alpha1.MixedCausesAdmit, want: []string{"is applied with it"}, kept: true},
		"Many": {below: many, want: []string{"the creation of Instance a (c); the deletion of Instance b; Instance c; ",
			"a, b, c, d, e and 1 more fields of Instance d", "and 2 more;"}, kept: true},
		"Grandchild": {below: []Below{{Child: "Instance inst", ID: "abc", Since: 5}}, want: []string{"Instance inst (abc)"}},
		"Later":      {below: []Below{{Child: "Instance inst", ID: "abc", Since: 6, Own: true}}, want: []string{"Instance inst (abc)"}},
		"Controller": {below: many, kept: true, by: func(r *Request) *Request { return by(r, fx.Crossplane, "apiextensions.crossplane.io/claim") }},
	} {
		t.Run(name, func(t *testing.T) {
			xr := fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyApprovals, approval), fx.Annotate(v1alpha1.AnnotationKeyClaims, ""))
			req := by(byCrossplane(Update, xr, size), fx.Alice, "kubectl")
			if tc.by != nil {
				req = tc.by(req)
			}
			o := stubs{Options: enforced()}
			o.below = func(context.Context, *parent.State) []Below { return tc.below }
			o.settings = func(parent.Ref, map[string]string) settings.Settings { return settings.Settings{MixedCauses: tc.mixed} }
			d := decide(t, setting{}.world(), o, req)
			text := strings.Join(d.Warnings, "\n")
			for _, w := range tc.want {
				if !strings.Contains(text, w) {
					t.Errorf("warnings %q, want %q", text, w)
				}
			}
			if len(tc.want) == 0 && strings.Contains(text, "held") {
				t.Errorf("warnings %q", text)
			}
			value := d.Annotations[v1alpha1.AnnotationKeyClaims]
			if !d.Allowed || value == nil || strings.Contains(*value, `"open"`) != tc.kept {
				t.Errorf("%s: the approval is recorded as %v", d.Reason, value)
			}
		})
	}
}

// Where all of a change was held before, and an AllowancePolicy of the parent does not allow it either, the policy is the reason: an approval of
// drift alone would not let it pass (KR-05-55, KR-04-14).
func TestHeldAndNotAllowed(t *testing.T) {
	held, _ := refusedRegion(t)
	set := policySet(t, `{kind: AllowancePolicy, metadata: {name: p}, spec: {target: {apiGroup: example.org, apiVersion: v1, kind: XDatabase}, rules: []}}`)
	for name, tc := range map[string]struct {
		policies Policies
		want     outcome.Reason
	}{"Without": {want: outcome.ReasonDrift}, "Narrowed": {policies: set, want: outcome.ReasonAllowanceMissing}} {
		t.Run(name, func(t *testing.T) {
			req := by(byCrossplane(Update, fx.Instance(), region("us")), fx.Crossplane, "controller")
			req.Held = held
			d, err := (&Evaluator{World: setting{xr: []fx.Mod{fx.Unsettled}}.world(), Options: remembering(), Policies: tc.policies}).Evaluate(t.Context(), req)
			if err != nil || d.Allowed || d.Reason != tc.want {
				t.Errorf("%v: %+v: %s", err, outcomeOf(d), d.Message)
			}
		})
	}
}
