package gating

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

var workspaceKind = schema.GroupKind{Group: "tf.m.upbound.io", Kind: "Workspace"}

// A change opens a Workspace for the runs that it was granted, and not for its deletion (KR-08-68).
func TestVerbsOfRun(t *testing.T) {
	const c, u, d = v1alpha1.VerbCreate, v1alpha1.VerbUpdate, v1alpha1.VerbDelete
	for name, tc := range map[string]struct {
		reason        string
		kind          schema.GroupKind
		granted, want []v1alpha1.Verb
		destroys      bool
	}{
		"Apply":   {reason: "nothing to destroy", kind: workspaceKind, granted: []v1alpha1.Verb{c, u}, want: []v1alpha1.Verb{c, u}},
		"Both":    {reason: "a run may destroy parts", kind: workspaceKind, granted: []v1alpha1.Verb{c, u, d}, want: []v1alpha1.Verb{c, u}, destroys: true},
		"Destroy": {reason: "its deletion", kind: workspaceKind, granted: []v1alpha1.Verb{d}, want: []v1alpha1.Verb{d}},
		"Crossplane": {reason: "others have one verb for each", kind: schema.GroupKind{Group: "rds.aws.upbound.io", Kind: "Instance"},
			granted: []v1alpha1.Verb{u, d}, want: []v1alpha1.Verb{u, d}},
	} {
		verbs, destroys := VerbsOfRun(tc.kind, tc.granted)
		require.Equal(t, tc.want, verbs, "%s: %s", name, tc.reason)
		require.Equal(t, tc.destroys, destroys, "%s: %s", name, tc.reason)
	}
}

// planned has a Workspace report what a plan would do with one resource.
func planned(operation string) fx.Mod {
	return fx.Set(map[string]any{"kausality_plan": map[string]any{"differs": true, "changes": map[string]any{"aws_instance.web": operation}}},
		"status", "atProvider", "outputs")
}

// What the run of a Workspace may destroy is what an approval names, or the difference that is approved by its id (KR-08-68).
func TestRunDestroys(t *testing.T) {
	at := metav1.NewTime(fx.Noon.Add(-time.Minute).UTC().Truncate(time.Second))
	open := fx.GateValue(mask.FormatGate(v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Generation: 3, At: at,
		Reason: v1alpha1.GateReasonChanged}))
	opened := []fx.Mod{open, fx.Policies("Observe", "Update"), reporting("False", 3)}
	byID := func(operation string) fx.Mod {
		d := decideGate(t, gatingOf(blind(planned(operation)), fx.Composite()))
		require.NotNil(t, d.Drift)
		return fx.Annotate(v1alpha1.AnnotationPrefix+"approve-"+d.Drift.ID, "once")
	}
	for name, tc := range map[string]struct {
		reason string
		mr     []fx.Mod
		xr     []fx.Mod
		// want are the verbs for which the gate opens; empty where it stays as it is.
		want     string
		destroys bool
	}{
		"Blind":      {reason: "apply and destroy are a run", xr: []fx.Mod{approving(`"apply","destroy"`, "once")}, want: "Create,Update", destroys: true},
		"Deletion":   {reason: "destroy is the deletion", xr: []fx.Mod{approving(`"destroy"`, "once")}, want: "Delete"},
		"All":        {reason: "* never destroys", xr: []fx.Mod{approving(`"*"`, "always")}, want: "Create,Update"},
		"ByID":       {reason: "the difference shows it", mr: []fx.Mod{planned("replace")}, xr: []fx.Mod{byID("replace")}, want: "Update", destroys: true},
		"ByIDUpdate": {reason: "nothing is destroyed", mr: []fx.Mod{planned("update")}, xr: []fx.Mod{byID("update")}, want: "Update"},
		"Lasting": {reason: "an approval of any difference does not name it", mr: []fx.Mod{planned("replace")}, xr: []fx.Mod{approving(`"apply"`, "always")},
			want: "Update"},
		"LastingBoth": {reason: "or does", mr: []fx.Mod{planned("replace")}, xr: []fx.Mod{approving(`"apply","destroy"`, "always")}, want: "Update", destroys: true},
		"Open": {reason: "a change opened it, and its run was refused", mr: opened, xr: []fx.Mod{approving(`"apply","destroy"`, "once")}, want: "Update",
			destroys: true},
		"OpenApply":  {reason: "it is open for that already", mr: opened, xr: []fx.Mod{approving(`"apply"`, "once")}},
		"OpenFrozen": {reason: "a freeze", mr: opened, xr: []fx.Mod{approving(`"apply","destroy"`, "always"), fx.Annotate(v1alpha1.AnnotationKeyFreeze, "true")}},
	} {
		t.Run(name, func(t *testing.T) {
			xr := fx.With(fx.Composite(), tc.xr...)
			mr := blind(tc.mr...)
			d := decideGate(t, gatingOf(mr, xr))
			if tc.want == "" {
				require.NotEqual(t, ActionOpen, d.Action, "%s: %+v", tc.reason, d.Gate)
				require.False(t, d.Gate.Destroys, tc.reason)
				return
			}
			require.Equal(t, ActionOpen, d.Action, "%s: %s", tc.reason, d.Why)
			require.Equal(t, tc.want, fx.Joined(d.Gate.Verbs), tc.reason)
			require.Equal(t, tc.destroys, d.Gate.Destroys, tc.reason)
			require.NotContains(t, d.Policies, "LateInitialize")
			if name == "Open" {
				require.Equal(t, at.UTC(), d.Gate.At.UTC(), "the deadline stays")
				again := decideGate(t, gatingOf(stored(mr, d), xr))
				require.Equal(t, ActionNone, again.Action, "it opens once: %+v", again.Gate)
			}
		})
	}
}

// A change that joins another one before its run is carried out may destroy only where both may (KR-08-68).
func TestJoinedRun(t *testing.T) {
	for _, was := range []v1alpha1.Gate{
		{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}},
		{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonPending, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Paths: []string{"spec.forProvider.module"}},
	} {
		for _, before := range []bool{false, true} {
			for _, joins := range []bool{false, true} {
				was.Destroys = before
				a := Acceptance{Gate: was, Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Destroys: joins, Paths: []string{"spec.forProvider.vars"}, Time: fx.Noon}
				next, pending := a.Transition()
				require.Empty(t, pending)
				require.Equal(t, v1alpha1.GateOpen, next.State)
				require.Equal(t, before && joins, next.Destroys, "%s, before %t, joins %t", was.State, before, joins)
			}
		}
	}
	alone := Acceptance{Gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonConfirmed, Destroys: false}, Destroys: true, Time: fx.Noon}
	next, _ := alone.Transition()
	require.True(t, next.Destroys)
	alone.Gate.Destroys, alone.Destroys = true, false
	next, _ = alone.Transition()
	require.False(t, next.Destroys, "what an earlier run was allowed is over")
	deleting := Acceptance{Gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: []v1alpha1.Verb{v1alpha1.VerbDelete}}, Destroys: true,
		Verbs: []v1alpha1.Verb{v1alpha1.VerbUpdate}, Time: fx.Noon}
	next, _ = deleting.Transition()
	require.True(t, next.Destroys, "an opening for its deletion is of no run")
}
