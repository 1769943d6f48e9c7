package gating

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A freeze closes an open gate, unless it is open for a creation or its work is done (KR-14-42).
func TestDecideWhenAFreezeBegins(t *testing.T) {
	const frozen, over = "true", `{"user":"alice","expiry":"2026-01-02T11:00:00Z"}`
	size := []string{"spec.forProvider.size"}
	earlier := fx.Condition("Synced", "True", "R", 2)
	open := func(reason, verbs string) string {
		return `{"state":"open","verbs":[` + verbs + `],"generation":3,"at":"2026-01-02T11:45:00Z","claim":"c1","digest":"d",` +
			`"paths":["spec.forProvider.size"],"reason":"` + reason + `"}`
	}
	const update, deletion, create = `"Update"`, `"Delete"`, `"Create","Update","LateInitialize"`
	for name, tc := range map[string]struct {
		gate   string
		mr     []fx.Mod
		synced fx.Mod
		freeze string
		want   Action
		reason string
		claim  string
		paths  []string
	}{
		"Changed": {gate: open(v1alpha1.GateReasonChanged, update), mr: []fx.Mod{fx.Tampered}, freeze: frozen,
			want: ActionClose, reason: v1alpha1.GateReasonFrozen, claim: "c1", paths: size},
		"NotFrozen": {gate: open(v1alpha1.GateReasonChanged, update), mr: []fx.Mod{fx.Tampered}, want: ActionNone},
		"Over":      {gate: open(v1alpha1.GateReasonChanged, update), mr: []fx.Mod{fx.Tampered}, freeze: over, want: ActionNone},
		"Done": {gate: open(v1alpha1.GateReasonChanged, update), freeze: frozen,
			want: ActionClose, reason: v1alpha1.GateReasonConfirmed, claim: "c1", paths: size},
		"Created": {gate: open(v1alpha1.GateReasonCreated, create), mr: []fx.Mod{fx.Tampered}, freeze: frozen, want: ActionNone},
		"Approved": {gate: open(v1alpha1.GateReasonApproved, update), mr: []fx.Mod{fx.Tampered}, synced: earlier, freeze: frozen,
			want: ActionClose, reason: v1alpha1.GateReasonFrozen},
		"ApprovedAndBegun": {gate: open(v1alpha1.GateReasonApproved, update), mr: []fx.Mod{fx.Tampered}, freeze: frozen,
			want: ActionClose, reason: v1alpha1.GateReasonFrozen, claim: "c1"},
		"Deletion": {gate: open(v1alpha1.GateReasonApproved, deletion), freeze: frozen, want: ActionClose, reason: v1alpha1.GateReasonFrozen},
		"Deleting": {gate: open(v1alpha1.GateReasonApproved, deletion), mr: []fx.Mod{fx.Deleting}, freeze: frozen, want: ActionNone},
	} {
		t.Run(name, func(t *testing.T) {
			synced := tc.synced
			if synced == nil {
				synced = fx.Synced
			}
			o := fx.With(fx.Instance(), append([]fx.Mod{synced, fx.Ready, fx.Policies(fx.Observe, fx.Update),
				fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["*"]`, v1alpha1.AnnotationKeyGate, tc.gate)}, tc.mr...)...)
			xr := fx.Composite()
			if tc.freeze != "" {
				xr = fx.With(xr, fx.Annotate(v1alpha1.AnnotationKeyFreeze, tc.freeze))
			}
			d := decideGate(t, gatingOf(o, xr))
			assert.Equal(t, tc.want, d.Action, d.Why)
			if tc.want == ActionNone {
				return
			}
			assert.Equal(t, tc.reason, d.Gate.Reason)
			assert.Equal(t, tc.claim, d.Gate.Claim)
			assert.Equal(t, tc.paths, d.Gate.Paths)
		})
	}
}

// What was accepted opens the gate again when the freeze ends, by itself or by a later change, and its allowances are not
// consumed before (KR-14-42).
func TestDecideWhenAFreezeEnds(t *testing.T) {
	gate := v1alpha1.Gate{State: v1alpha1.GateClosed, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Generation: 3, Reason: v1alpha1.GateReasonFrozen,
		Paths: []string{"spec.forProvider.size"}}
	o := fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Tampered, fx.Policies(fx.Observe),
		fx.Annotate(v1alpha1.AnnotationKeyManagementPolicies, `["*"]`, v1alpha1.AnnotationKeyGate, mask.FormatGate(gate)))
	until := fx.Annotate(v1alpha1.AnnotationKeyFreeze, `{"user":"alice","expiry":"2026-01-02T12:30:00Z"}`)
	d := decideGate(t, gatingOf(o, fx.With(fx.Composite(), until)))
	assert.Equal(t, ActionNone, d.Action)
	assert.Equal(t, 30*time.Minute, d.Again)

	d = decideGate(t, gatingOf(o, fx.Composite()))
	assert.Equal(t, ActionOpen, d.Action, d.Why)
	assert.Equal(t, v1alpha1.GateReasonChanged, d.Gate.Reason)
	assert.Equal(t, gate.Paths, d.Gate.Paths)

	next, pending := Acceptance{Gate: gate, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Paths: []string{"spec.forProvider.region"},
		Generation: 4, Time: fx.Noon}.Transition()
	assert.Empty(t, pending)
	slices.Sort(next.Paths)
	assert.Equal(t, []string{"spec.forProvider.region", "spec.forProvider.size"}, next.Paths)
	assert.EqualValues(t, -1, closedAt(gate))
}
