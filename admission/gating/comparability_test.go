package gating

import (
	"testing"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// What cannot be known of an external resource is reported as unknown (KR-08-22).
func TestBlind(t *testing.T) {
	cases := map[string]struct {
		reason string
		mods   []fx.Mod
		gone   bool
		want   UnknownDrift
	}{
		"Closed": {reason: "what exists can be compared, and a missing resource is reported"},
		"Nothing": {reason: "a Workspace without outputs",
			mods: []fx.Mod{fx.Set(map[string]any{"outputs": map[string]any{}}, "status", "atProvider")}, want: UnknownNothingComparable},
		"Outputs": {reason: "a Workspace reports outputs alone",
			mods: []fx.Mod{fx.Set(map[string]any{"outputs": map[string]any{"size": "20"}}, "status", "atProvider")}, want: UnknownBeyondOutputs},
		"Plan": {reason: "a Workspace reports what a plan would change",
			mods: []fx.Mod{fx.Set(map[string]any{"outputs": map[string]any{"kausality_plan": map[string]any{"differs": false}}}, "status", "atProvider")}},
		"Unreported":  {reason: "no status at all", mods: []fx.Mod{fx.Set(map[string]any{}, "status")}, want: UnknownNothingComparable},
		"NothingGone": {reason: "that it is gone is known", mods: []fx.Mod{fx.Set(map[string]any{}, "status")}, gone: true},
		"LateInit": {reason: "O,LI reports success for a missing resource", mods: []fx.Mod{fx.Policies(fx.LateInitialize, fx.Observe)},
			want: UnknownGoneUnseen},
		"Open": {reason: "with more than that it is made, or missed", mods: []fx.Mod{fx.Policies(fx.Observe, fx.Update, fx.LateInitialize)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := fx.With(fx.Instance(), tc.mods...)
			seen := Observe(o, "")
			seen.Gone = tc.gone
			got := UnknownDriftOf(parent.Sum(o, parent.RoleManaged), seen)
			if got != tc.want || (got == "") != (got.Why() == "") {
				t.Errorf("%s: got %q, %q", tc.reason, got, got.Why())
			}
		})
	}
}
