package admission

import (
	"testing"

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
