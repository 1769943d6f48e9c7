package gating

import (
	"strings"
	"testing"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A provider that reports what cannot be confirms nothing by it, and no such report opens
// a gate or keeps it open beyond its deadline (KR-08-48).
func TestImpossibleReports(t *testing.T) {
	ahead := fx.Condition("Synced", "True", "R", 99)
	gate := mask.ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: fx.OpenUpdate})
	unproven := gate
	unproven.Unproven = true
	cases := map[string]struct {
		reason string
		gate   v1alpha1.Gate
		mods   []fx.Mod
		change func(*Managed)
		why    string
	}{
		"AheadAndUnproven": {reason: "the value is from before the request", gate: unproven, mods: []fx.Mod{ahead}, why: "equals the external one"},
		"AheadAndBlind": {reason: "nothing else can be known", gate: gate, mods: []fx.Mod{ahead},
			change: func(g *Managed) { g.Comparable, g.Difference = false, nil }, why: "reports neither"},
		"AheadAndDifferent": {reason: "it is not applied", gate: gate, mods: []fx.Mod{ahead, fx.Tampered}, why: "still differs"},
		"AheadAndEcho": {reason: "the reconcile request was not handled", gate: gate, mods: []fx.Mod{ahead},
			change: func(g *Managed) { g.Kind.ReconcileRequests, g.RequestedAt, g.HandledAt = true, "t2", "t1" }, why: "has not handled"},
		"Stale": {reason: "an old atProvider", gate: gate, mods: []fx.Mod{fx.Synced, fx.Tampered}, why: "still differs"},
		"Flapping": {reason: "between two reports of success", gate: gate, mods: []fx.Mod{fx.Condition("Synced", "Unknown", "R", 3)},
			why: "Synced is not True"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mods := append([]fx.Mod{fx.Policies(fx.Observe, fx.Update), fx.GateValue(mask.FormatGate(tc.gate))}, tc.mods...)
			g := gatingOf(fx.With(fx.Instance(), mods...), fx.Composite())
			if tc.change != nil {
				tc.change(&g)
			}
			if d := decideGate(t, g); d.Action != ActionNone || !strings.Contains(d.Why, tc.why) || d.Again <= 0 {
				t.Errorf("%s: %s %s (%s), again in %s", tc.reason, d.Action, d.Gate.Reason, d.Why, d.Again)
			}
			g.Now = fx.Noon.Add(time.Hour)
			if d := decideGate(t, g); d.Action != ActionClose || d.Gate.Reason != v1alpha1.GateReasonExpired {
				t.Errorf("%s: at the deadline %s %s (%s)", tc.reason, d.Action, d.Gate.Reason, d.Why)
			}
		})
	}
	t.Run("Closed", func(t *testing.T) {
		if d := decideGate(t, gatingOf(fx.With(fx.Instance(), ahead, fx.Ready), fx.Composite())); d.Action != ActionNone || d.Drift != nil {
			t.Errorf("a report alone opens nothing: %+v", d)
		}
	})
}
