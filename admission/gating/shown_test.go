package gating

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// workspace behind a closed gate: nothing of forProvider can be compared with its outputs.
func workspace(mods ...fx.Mod) *unstructured.Unstructured {
	o := fx.With(fx.Instance(), fx.Synced, fx.Ready)
	o.Object["spec"].(map[string]any)["forProvider"] = map[string]any{"module": "size = 11"}
	o.Object["status"].(map[string]any)["atProvider"] = map[string]any{
		"outputs": map[string]any{"size": "11", "arn": "arn:x"}, "checksum": "c1", "lastRun": "2026-01-02T11:30:00Z",
		"state": map[string]any{"serial": int64(4)},
	}
	return fx.With(o, mods...)
}

func decideShown(t *testing.T, o *unstructured.Unstructured) Decision {
	t.Helper()
	g := gatingOf(o, fx.Composite())
	g.Shown = external.Digests(o.Object)
	return decideGate(t, g)
}

// at rest: the workspace with the record that the gate made.
func atRest(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	d := decideShown(t, o)
	if d.Action != ActionRecord || d.Drift != nil || strings.Join(d.Policies, ",") != "Observe" {
		t.Fatalf("not recorded: %s (%s) %v, drift %v", d.Action, d.Why, d.Policies, d.Drift)
	}
	if got := mask.ParseGate(o.GetAnnotations()).At; !got.Equal(&d.Gate.At) {
		t.Errorf("a record is no transition: at %v, was %v", d.Gate.At, got)
	}
	return fx.With(o, fx.GateValue(mask.FormatGate(d.Gate)))
}

// What a provider shows behind a closed gate is compared with what it showed when it had
// observed that gate (KR-08-47).
func TestShown(t *testing.T) {
	output := func(v string) fx.Mod { return fx.Set(v, "status", "atProvider", "outputs", "size") }
	serial := fx.Set(int64(5), "status", "atProvider", "state", "serial")
	checksum := fx.Set("c2", "status", "atProvider", "checksum")
	later := func(o *unstructured.Unstructured) { o.SetGeneration(4) }
	cases := map[string]struct {
		reason string
		change fx.Mod
		want   []string
	}{
		"Nothing":  {reason: "at rest", change: func(*unstructured.Unstructured) {}},
		"Output":   {reason: "an output moved outside", change: output("99"), want: []string{"status.atProvider.outputs.size"}},
		"Added":    {reason: "another output", change: fx.Set("x", "status", "atProvider", "outputs", "more"), want: []string{"status.atProvider.outputs.more"}},
		"Serial":   {reason: "a new state", change: serial, want: []string{"status.atProvider.state.serial"}},
		"Checksum": {reason: "another source, without a change of the spec", change: checksum, want: []string{"status.atProvider.checksum"}},
		"Time":     {reason: "a time is no state", change: fx.Set("2026-01-02T11:59:00Z", "status", "atProvider", "lastRun")},
		"Silent": {reason: "a provider that shows nothing, as after a restart", change: func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "atProvider")
		}},
		"Removed": {reason: "an output is gone", change: func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "atProvider", "outputs", "size")
		}, want: []string{"status.atProvider.outputs.size"}},
		"ChecksumOfAChange": {reason: "the checksum of a change of the module that the gate holds is its author's",
			change: func(o *unstructured.Unstructured) { checksum(o); later(o) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := fx.With(atRest(t, workspace()), tc.change)
			d := decideShown(t, o)
			var got []string
			if d.Drift != nil {
				for _, f := range d.Drift.Difference {
					got = append(got, f.Path)
				}
				if !strings.Contains(d.Drift.Cause, got[0]) || d.Drift.SuggestedApproval == "" {
					t.Errorf("the report: %+v", d.Drift)
				}
			}
			if d.Action != ActionNone || !slices.Equal(got, tc.want) {
				t.Errorf("%s: %s (%s), differs: %v, want %v", tc.reason, d.Action, d.Why, got, tc.want)
			}
		})
	}
}

// What an opening changed may show later than it was confirmed: nothing is recorded before
// the provider has observed the closed gate (KR-08-47).
func TestShownUnobserved(t *testing.T) {
	for name, mod := range map[string]fx.Mod{
		"Behind":   fx.GateValue(`{"state":"closed","generation":4,"at":"2026-01-02T11:00:00Z","reason":"Confirmed"}`),
		"Unsynced": func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "status", "conditions") },
		"Ongoing":  fx.Condition("AsyncOperation", "False", "Ongoing", 0),
	} {
		if d := decideShown(t, workspace(mod)); d.Action != ActionNone {
			t.Errorf("%s: recorded: %+v", name, d)
		}
	}
	if d := decideShown(t, fx.With(workspace(), fx.Set(map[string]any{"phase": "Running"}, "status", "atProvider"))); d.Action != ActionNone {
		t.Errorf("nothing identifies the state, and it was recorded: %+v", d)
	}
}

// The next accepted change is held by what showed, keeps the record, and opens the gate
// when nothing showed (KR-08-47, KR-08-07).
func TestShownPending(t *testing.T) {
	rest := atRest(t, workspace())
	moved := fx.With(rest, fx.Set("99", "status", "atProvider", "outputs", "size"))
	accept := func(o *unstructured.Unstructured) (v1alpha1.Gate, []change.Change) {
		return Acceptance{Gate: mask.ParseGate(o.GetAnnotations()), Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate},
			Paths: []string{"spec.forProvider.module"}, Generation: 4, Time: fx.Noon, Difference: external.Difference(o.Object)}.Transition()
	}
	if gate, pending := accept(rest); gate.State != v1alpha1.GateOpen || gate.Observed != nil || len(pending) > 0 {
		t.Errorf("nothing showed: %+v, %v", gate, pending)
	}
	gate, pending := accept(moved)
	if gate.State != v1alpha1.GateClosed || gate.Reason != v1alpha1.GateReasonPending || gate.Observed == nil || len(pending) != 1 {
		t.Errorf("an output moved: %+v, %v", gate, pending)
	}
	held := fx.With(moved, fx.GateValue(mask.FormatGate(gate)))
	if d := decideShown(t, held); d.Drift == nil {
		t.Errorf("what showed is forgotten by a change: %+v", d)
	}
	gate.State, gate.Verbs = v1alpha1.GateOpen, []v1alpha1.Verb{v1alpha1.VerbUpdate}
	if diff := external.Difference(fx.With(moved, fx.GateValue(mask.FormatGate(gate))).Object); len(diff) > 0 {
		t.Errorf("while it is open, it changes: %v", diff)
	}
	gate.Verbs = []v1alpha1.Verb{v1alpha1.VerbDelete}
	if diff := external.Difference(fx.With(moved, fx.GateValue(mask.FormatGate(gate))).Object); len(diff) != 1 {
		t.Errorf("open for Delete alone, nothing else is approved: %v", diff)
	}
}
