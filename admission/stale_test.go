package admission

import (
	"testing"

	"github.com/kausality-io/function-kausality/admission/annotation"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A composed creation that was composed from an object that is gone is refused
// (KR-08-16).
func TestStaleCreation(t *testing.T) {
	gate := func(value string) []fx.Mod {
		return []fx.Mod{fx.GateValue(value), fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["*"]`)}
	}
	confirmed := gate(`{"state":"closed","verbs":["Update"],"generation":3,"at":"2026-01-02T11:00:00Z","reason":"Confirmed"}`)
	later := gate(`{"state":"open","verbs":["Create","Update"],"generation":4,"at":"2026-01-02T11:00:00Z","reason":"Created"}`)
	created := gate(`{"state":"open","verbs":["Create","Update"],"generation":1,"at":"2026-01-02T12:00:00Z","reason":"Created"}`)
	logged := enforced()
	logged.DefaultMode = v1alpha1.ModeLog
	cases := map[string]struct {
		reason string
		opts   Options
		req    *Request
		want   outcome.Reason
	}{
		"Confirmed": {reason: "a gate that was closed since", opts: enforced(),
			req: byCrossplane(Create, fx.With(fx.Unmasked(), confirmed...)), want: outcome.ReasonStaleRead},
		"LaterGeneration": {reason: "a gate of a later generation", opts: enforced(),
			req: byCrossplane(Create, fx.With(fx.Unmasked(), later...)), want: outcome.ReasonStaleRead},
		"New": {reason: "the gate that the function gives a creation", opts: enforced(),
			req: byCrossplane(Create, fx.With(fx.Unmasked(), created...)), want: outcome.ReasonExpected},
		"NoGate": {reason: "a function that does not mask", opts: enforced(), req: byCrossplane(Create, fx.Unmasked()), want: outcome.ReasonExpected},
		"Log": {reason: "nothing is refused in mode log", opts: logged, req: byCrossplane(Create, fx.With(fx.Unmasked(), confirmed...)),
			want: outcome.ReasonExpected},
		"Backup": {reason: "a restored object is another user's", opts: enforced(),
			req: by(byCrossplane(Create, fx.With(fx.Unmasked(), confirmed...)), fx.Alice, "velero"), want: outcome.ReasonNewOrigin},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := decide(t, setting{xr: []fx.Mod{fx.Unsettled}}.world(), tc.opts, tc.req)
			if d.Reason != tc.want || d.Allowed != (tc.want != outcome.ReasonStaleRead) {
				t.Errorf("%s: want %s, got %s (%s)", tc.reason, tc.want, d.Reason, d.Message)
			}
		})
	}
}

// TestOutdatedHold covers KR-05-70: an apply that holds back what is stored already was composed from a read before that.
func TestOutdatedHold(t *testing.T) {
	held, _ := refusedRegion(t)
	record := func(h v1alpha1.Held) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyHeld, annotation.MustMarshal(h))
	}
	holds := record(v1alpha1.Held{Reason: "Drift", Operation: "UPDATE", HeldDrift: held.Drift()})
	logged := enforced()
	logged.DefaultMode = v1alpha1.ModeLog
	for name, tc := range map[string]struct {
		reason string
		opts   Options
		stored string
		mods   []fx.Mod
		by     func(*Request) *Request
		want   outcome.Reason
	}{
		"Outdated": {reason: "the value that is held is stored", opts: enforced(), stored: "us", mods: []fx.Mod{region("eu"), holds}, want: outcome.ReasonStaleRead},
		"Beside": {reason: "something else is changed as well", opts: enforced(), stored: "us", mods: []fx.Mod{region("eu"), fx.Resize("l"), holds},
			want: outcome.ReasonStaleRead},
		"Other": {reason: "another value is stored than the one that is held", opts: enforced(), stored: "ap", mods: []fx.Mod{region("eu"), holds},
			want: outcome.ReasonDrift},
		"Unrecorded": {reason: "nothing is held", opts: enforced(), stored: "us", mods: []fx.Mod{region("eu")}, want: outcome.ReasonDrift},
		"Whole": {reason: "more paths than are recorded", opts: enforced(), stored: "us", mods: []fx.Mod{region("eu"), record(v1alpha1.Held{Reason: "Drift",
			Operation: "UPDATE", HeldDrift: v1alpha1.HeldDrift{Drift: map[string]string{v1alpha1.HeldWhole: ""}}})}, want: outcome.ReasonDrift},
		"Same": {reason: "nothing is changed but the record", opts: enforced(), stored: "us", mods: []fx.Mod{holds}, want: outcome.ReasonNoChange},
		"Log":  {reason: "nothing is refused in mode log", opts: logged, stored: "us", mods: []fx.Mod{region("eu"), holds}, want: outcome.ReasonDriftLogged},
		"User": {reason: "a user's change is an intent", opts: enforced(), stored: "us", mods: []fx.Mod{region("eu"), holds}, want: outcome.ReasonNewOrigin,
			by: func(r *Request) *Request { return by(r, fx.Alice, "kubectl") }},
	} {
		t.Run(name, func(t *testing.T) {
			req := byCrossplane(Update, fx.With(fx.Instance(), region(tc.stored)), tc.mods...)
			if tc.by != nil {
				req = tc.by(req)
			}
			d := decide(t, setting{}.world(), tc.opts, req)
			if d.Reason != tc.want {
				t.Fatalf("%s: want %s, got %s (%s)", tc.reason, tc.want, d.Reason, d.Message)
			}
			if d.Reason == outcome.ReasonStaleRead && (d.Allowed || d.Code != outcome.CodeComposed || d.Report != nil || d.Drift != nil) {
				t.Errorf("%s: allowed %t, code %d, report %v, remembered %v", tc.reason, d.Allowed, d.Code, d.Report, d.Drift)
			}
		})
	}
}
