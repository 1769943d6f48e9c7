package settling

import (
	"testing"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// settlingCase is a composite with a child, and whether it settles.
type settlingCase struct {
	reason  string
	xr      []fx.Mod
	child   *parent.State
	change  func(*Observation)
	settled bool
	again   time.Duration
}

// testSettling checks which composites settle, and when to look again.
func testSettling(t *testing.T, cases map[string]settlingCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Observation{Parent: parent.Sum(fx.With(fx.Composite(), tc.xr...), parent.RoleComposite), Observed: 7, Known: true,
				Grace: 10 * time.Second, Now: fx.Noon}
			if tc.child != nil {
				s.Children = []*parent.State{tc.child}
			}
			tc.change(&s)
			settled, again := s.Settles()
			if settled != tc.settled || again != tc.again {
				t.Errorf("%s: got %t, again in %s", tc.reason, settled, again)
			}
		})
	}
}

// plain changes nothing.
func plain(*Observation) {}

// settledChild is one that is settled but for mods.
func settledChild(mods ...fx.Mod) *parent.State {
	return parent.Sum(fx.With(fx.Instance(), append([]fx.Mod{fx.Synced, fx.Ready}, mods...)...), parent.RoleManaged)
}

// older is the trace of an earlier intent.
var older = fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Composite(), 4, "alice"), fx.Hop(fx.Instance(), 3, "c")}.String())

// TestSettles covers what settles a composite (KR-03-05, KR-03-07). Any other parent settles when it converged.
func TestSettles(t *testing.T) {
	conditions := func(status string) fx.Mod {
		return func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "conditions")
			fx.Condition("Synced", "True", "R", 7)(o)
			fx.Condition("Ready", status, "R", 7)(o)
		}
	}
	fresh := fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Composite(), 5, "alice"), trace.Hop(parent.RefOf(fx.Instance()), 3, "c",
		fx.Noon.Add(-2*time.Second))}.String())
	testSettling(t, map[string]settlingCase{
		"Settled":  {reason: "all of it holds", child: settledChild(), change: plain, settled: true},
		"Deleting": {reason: "what is being deleted settles no more", xr: []fx.Mod{fx.Deleting}, child: settledChild(), change: plain},
		"NotReady": {reason: "not converged", xr: []fx.Mod{conditions("False")}, child: settledChild(), change: plain},
		"Grace": {reason: "converged without interruption for the grace", xr: []fx.Mod{conditions("True")}, child: settledChild(),
			change: func(s *Observation) { s.Now = time.Date(2026, 1, 2, 11, 30, 4, 0, time.UTC) }, again: 6 * time.Second},
		"Restarted": {reason: "which each write to a child's desired state restarts", child: settledChild(fresh), change: plain,
			again: 8 * time.Second},
		"JustAsked": {reason: "as the intent does: it may have come while Crossplane was reconciling",
			xr: []fx.Mod{fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{trace.Hop(parent.RefOf(fx.Composite()), 5, "alice",
				fx.Noon.Add(-3*time.Second))}.String())},
			child: settledChild(older), change: plain, again: 7 * time.Second},
		"JustObserved": {reason: "it converges as it is reported as observed", child: settledChild(),
			change: func(s *Observation) { s.ObservedSince = fx.Noon.Add(-time.Second) }, again: 9 * time.Second},
		"Unobserved": {reason: "observed before the intent", child: settledChild(), change: func(s *Observation) { s.Observed = 4 }},
		"Unknown":    {reason: "never observed", child: settledChild(), change: func(s *Observation) { s.Known = false }},
	})
	d, _ := fx.DeploymentAndReplicaSet()
	other := parent.Sum(d, parent.RoleNone)
	other.Converged = true // kstatus is tested in parent
	if ok, _ := (Observation{Parent: other, Observed: 4, Known: true, Now: fx.Noon}).Settles(); !ok {
		t.Error("any other parent settles when it converged")
	}
}

// TestSettlesByChildren covers KR-03-08: what a composite composes settles before it.
func TestSettlesByChildren(t *testing.T) {
	ahead := fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{fx.Hop(fx.Composite(), 5, "alice"), fx.Hop(fx.Instance(), 4, "c")}.String())
	testSettling(t, map[string]settlingCase{
		"NoChildren": {reason: "it has at least one resourceRef", change: plain,
			xr: []fx.Mod{fx.Set([]any{}, "spec", "resourceRefs"), fx.Set("", "spec", "compositionRevisionRef", "name")}},
		"ComposesNothing": {reason: "or was composed by a revision that has no resources", settled: true, change: plain,
			xr: []fx.Mod{fx.Set([]any{}, "spec", "resourceRefs")}},
		"Missing": {reason: "the state of an unreadable child is unknown", child: settledChild(),
			change: func(s *Observation) { s.Missing = true }, again: unwatchedAgain},
		"ChildUnsettled": {reason: "a child of this intent is not ready",
			child: parent.Sum(fx.With(fx.Instance(), fx.Synced), parent.RoleManaged), change: plain},
		"ChildUnwatched": {reason: "whose settling wakes no watch",
			child: parent.Sum(fx.With(fx.Instance(), fx.Synced), parent.RoleManaged), change: func(s *Observation) { s.Unwatched = true },
			again: unwatchedAgain},
		"OnlyUnwatched": {reason: "which matters only where it is not settled", child: settledChild(),
			change: func(s *Observation) { s.Unwatched = true }, settled: true},
		"ChildBehind": {reason: "or its provider has not seen the change",
			child: parent.Sum(fx.With(fx.Instance(), fx.Condition("Synced", "True", "R", 2), fx.Ready), parent.RoleManaged), change: plain},
		"ChildMasked": {reason: "its author changed what the mask hides: no generation follows", child: settledChild(ahead),
			change: plain, settled: true},
		"ChildOfEarlier": {reason: "one of an earlier intent does not matter",
			child: parent.Sum(fx.With(fx.Instance(), older), parent.RoleManaged), change: plain, settled: true},
		"ChildOpen": {reason: "an open gate", child: settledChild(fx.GateValue(fx.OpenUpdate)), change: plain},
		"ChildCreated": {reason: "that of a creation stays open for a while", settled: true, change: plain,
			child: settledChild(fx.GateValue(`{"state":"open","verbs":["Create","Update"],"generation":3,"at":"2026-01-02T11:30:00Z","reason":"Created"}`))},
		"ChildChanged": {reason: "unless another change extended it", change: plain,
			child: settledChild(fx.GateValue(`{"state":"open","verbs":["Create","Update"],"generation":3,"at":"2026-01-02T11:30:00Z","reason":"Changed"}`))},
		"ChildCreating": {reason: "and not before it is Ready", change: plain, child: parent.Sum(fx.With(fx.Instance(), fx.Synced,
			fx.GateValue(`{"state":"open","verbs":["Create"],"generation":3,"at":"2026-01-02T11:30:00Z","reason":"Created"}`)), parent.RoleManaged)},
	})
}

// TestSettlesUnthrottled covers KR-04-16: a composite does not settle while the circuit breaker is open.
func TestSettlesUnthrottled(t *testing.T) {
	testSettling(t, map[string]settlingCase{
		"Throttled": {reason: "what follows from the intent may wait for the circuit breaker (KR-04-16)",
			xr: []fx.Mod{fx.Condition("Responsive", "False", "WatchCircuitOpen", 7)}, child: settledChild(), change: plain},
		"ThrottledChild": {reason: "and so may that of a composite below",
			child:  parent.Sum(fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Condition("Responsive", "False", "WatchCircuitOpen", 3)), parent.RoleComposite),
			change: plain},
		"ThrottledManaged": {reason: "which is a condition of composites alone", settled: true, change: plain,
			child: parent.Sum(fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Condition("Responsive", "False", "Any", 3)), parent.RoleManaged)},
		"Responsive": {reason: "the grace begins when the breaker closes", child: settledChild(), change: func(s *Observation) {
			s.Parent.Conditions = append(s.Parent.Conditions, parent.Condition{Type: parent.ConditionResponsive, Status: metav1.ConditionTrue,
				LastTransitionTime: fx.Noon.Add(-4 * time.Second)})
		}, again: 6 * time.Second},
	})
}

// TestSettlesAfterReconcile covers KR-03-10: an intent that came during a reconcile waits for the next.
func TestSettlesAfterReconcile(t *testing.T) {
	// overtaken by an intent: a reconcile began at a generation, and the latest one is reported.
	overtaken := func(begun int64, synced string) fx.Mod {
		return func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "conditions")
			fx.Condition("Synced", synced, "R", 7)(o)
			fx.Condition("Ready", "True", "R", 7)(o)
			fx.Condition("Responsive", "True", "WatchCircuitClosed", begun)(o)
		}
	}
	// at a time after the conditions of overtaken.
	at := func(observed int64, after time.Duration) func(*Observation) {
		return func(s *Observation) {
			s.Observed, s.Now = observed, time.Date(2026, 1, 2, 11, 30, 0, 0, time.UTC).Add(after)
		}
	}
	testSettling(t, map[string]settlingCase{
		"Overtaken": {reason: "the intent came while Crossplane composed the generation before: its pipeline has not seen it (KR-03-10)",
			xr: []fx.Mod{overtaken(4, "True")}, child: settledChild(), change: at(4, 30*time.Second), again: 5*time.Minute + 30*time.Second},
		"OvertakenObserved": {reason: "a reconcile began at the intent: the grace begins when that is seen", xr: []fx.Mod{overtaken(5, "True")},
			child: settledChild(), change: func(s *Observation) { s.Observed, s.ObservedSince = 5, fx.Noon.Add(-time.Second) }, again: 9 * time.Second},
		"OvertakenSettled": {reason: "and ends", xr: []fx.Mod{overtaken(5, "True")}, child: settledChild(), change: at(5, time.Minute), settled: true},
		"OvertakenFailed": {reason: "one that failed has carried out nothing", xr: []fx.Mod{overtaken(5, "False")},
			child: settledChild(), change: at(5, time.Minute)},
		"OvertakenAbandoned": {reason: "a Crossplane that does not write Responsive leaves it behind", settled: true,
			xr: []fx.Mod{overtaken(4, "True")}, child: settledChild(), change: at(4, 6*time.Minute)},
		"OvertakenChild": {reason: "a composite below waits for its reconcile, too", change: at(5, 30*time.Second), again: 5*time.Minute + 30*time.Second,
			child: parent.Sum(fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Condition("Responsive", "True", "R", 2)), parent.RoleComposite)},
		"OvertakenChildAbandoned": {reason: "as long as that may come", change: at(5, 6*time.Minute), settled: true,
			child: parent.Sum(fx.With(fx.Instance(), fx.Synced, fx.Ready, fx.Condition("Responsive", "True", "R", 2)), parent.RoleComposite)},
	})
}

// TestSettlesWithoutHeld covers KR-05-59: what the function holds is waited for, unless it was held before the intent.
func TestSettlesWithoutHeld(t *testing.T) {
	testSettling(t, map[string]settlingCase{
		"Held": {reason: "the function holds something back",
			xr: []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)}, child: settledChild(), change: plain},
		"HeldBefore": {reason: "what was held before the intent is not waited for (KR-05-59)", settled: true, change: plain,
			xr:    []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)},
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{"reason":"Drift","operation":"UPDATE","before":true}`))},
		"HeldBeforeAndSince": {reason: "but what was held since is", change: plain,
			xr: []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)},
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{"reason":"Drift","operation":"UPDATE","before":true}`,
				v1alpha1.AnnotationKeyHeldCreations, `[{"resource":"c","kind":"C","reason":"AllowanceMissing"}]`))},
		"HeldCreationBefore": {reason: "a creation is the same", settled: true, change: plain,
			xr:    []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)},
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeldCreations, `[{"resource":"c","kind":"C","reason":"Drift","before":true}]`))},
		"HeldUnreadable": {reason: "what does not parse was not held before", change: plain,
			xr:    []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)},
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{`))},
		"FrozenBefore": {reason: "a freeze is waited for", change: plain,
			xr:    []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonFrozen, 0)},
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{"reason":"Frozen","operation":"UPDATE","before":true}`))},
		"HeldUnreported": {reason: "a record counts where the condition was not written after it", change: plain,
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{"reason":"Frozen","operation":"UPDATE"}`))},
		"HeldBeforeUnreported": {reason: "but none of before", settled: true, change: plain,
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{"reason":"Drift","operation":"UPDATE","before":true}`))},
		"HeldElsewhere": {reason: "and none of another composite", settled: true, change: plain,
			child: settledChild(fx.Annotate(v1alpha1.AnnotationKeyHeld, `{"reason":"Frozen","operation":"UPDATE"}`), fx.Set([]any{}, "metadata", "ownerReferences"))},
		"Frozen": {reason: "or frozen", xr: []fx.Mod{fx.Condition("Kausality", "False", v1alpha1.ConditionReasonFrozen, 0)},
			child: settledChild(), change: plain},
		"AllowedByFunctn": {reason: "or does not", xr: []fx.Mod{fx.Condition("Kausality", "True", v1alpha1.ConditionReasonAllowed, 0)},
			child: settledChild(), change: plain, settled: true},
	})
}

// A claim goes back only if the write can be shown not to have landed (KR-05-36).
func TestClaimOutcome(t *testing.T) {
	claim := func(age time.Duration, uid, version string) v1alpha1.Claim {
		c := v1alpha1.Claim{ID: "c1", State: v1alpha1.ClaimPending, Child: &v1alpha1.ClaimChild{Kind: "Instance", Name: "inst", Version: version}}
		c.Child.UID, c.At.Time = parent.RefOf(fx.Instance()).UID, fx.Noon.Add(-age)
		if uid == "" {
			c.Child.UID = ""
		}
		return c
	}
	same := parent.Sum(fx.Instance(), parent.RoleManaged)
	hop := fx.Hop(fx.Instance(), 4, "c")
	hop.Approval = &v1alpha1.HopApproval{Claim: "c1"}
	used := parent.Sum(fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleManaged)
	moved := parent.Sum(fx.With(fx.Instance(), fx.Set(int64(4), "metadata", "generation")), parent.RoleManaged)
	deleting := parent.Sum(fx.With(fx.Instance(), fx.Set("2026-01-02T00:00:00Z", "metadata", "deletionTimestamp")), parent.RoleManaged)
	another := parent.Sum(fx.With(fx.Instance(), fx.Set("another", "metadata", "uid")), parent.RoleManaged)
	nameless := claim(time.Minute, "", "")
	nameless.Child.Name = ""
	young := claim(29*time.Second, "", "")
	young.Child.Name = ""
	cases := map[string]struct {
		reason string
		claim  v1alpha1.Claim
		child  *parent.State
		// searched: see Child.
		searched bool
		want     v1alpha1.ClaimState
	}{
		"Hop": {reason: "its id is in the child's hop", claim: claim(0, "u", "g3"), child: used,
			want: v1alpha1.ClaimUsed},
		"Early": {reason: "a write takes its time", claim: claim(29*time.Second, "u", "g3"), child: same},
		"Unchanged": {reason: "the child is as it was", claim: claim(30*time.Second, "u", "g3"), child: same,
			want: v1alpha1.ClaimOpen},
		"Changed": {reason: "in doubt it stays used", claim: claim(time.Minute, "u", "g3"), child: moved,
			want: v1alpha1.ClaimUsed},
		"DeletionEarly":     {reason: "a deletion takes its time, too", claim: claim(29*time.Second, "u", ""), child: moved},
		"NeverDeleted":      {reason: "it exists, in another version", claim: claim(30*time.Second, "u", ""), child: moved, want: v1alpha1.ClaimOpen},
		"Deleting":          {reason: "the deletion landed, and a finalizer is left", claim: claim(time.Minute, "u", ""), child: deleting, want: v1alpha1.ClaimUsed},
		"DeletedAndCreated": {reason: "another object has its name", claim: claim(time.Minute, "u", ""), child: another, want: v1alpha1.ClaimUsed},
		"Deleted":           {reason: "a deletion that landed", claim: claim(time.Minute, "u", "g3"), want: v1alpha1.ClaimUsed},
		"NeverCreated":      {reason: "a CREATE that never landed", claim: claim(time.Minute, "", ""), want: v1alpha1.ClaimOpen},
		"CreatedByElse": {reason: "there is one, by whomever", claim: claim(time.Minute, "", ""), child: same,
			want: v1alpha1.ClaimUsed},
		"Nameless":         {reason: "a nameless CREATE cannot be looked up", claim: nameless, want: v1alpha1.ClaimUsed},
		"NamelessSearched": {reason: "no object has the claim in its hop", claim: nameless, searched: true, want: v1alpha1.ClaimOpen},
		"NamelessEarly":    {reason: "it may still appear", claim: young, searched: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ClaimOutcome(tc.claim, Child{State: tc.child, Searched: tc.searched}, fx.Noon); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}

// TestInstance: an instance of a graph settles once it has been carried out for a while (KR-18-03).
func TestInstance(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	instance := func(mods ...fx.Mod) *parent.State {
		return parent.Sum(fx.With(fx.Object(`{apiVersion: kro.run/v1, kind: Shop, metadata: {name: s, uid: s, generation: 2}, status: {state: ACTIVE,
			conditions: [{type: Ready, status: "True", observedGeneration: 2}]}}`), mods...), parent.RoleInstance)
	}
	intent := fx.Annotate(v1alpha1.AnnotationKeyTrace,
		`[{"apiVersion":"kro.run/v1","kind":"Shop","name":"s","generation":2,"user":"hans","timestamp":"2026-01-02T12:00:00Z"}]`)
	for name, tc := range map[string]struct {
		reason   string
		parent   *parent.State
		observed time.Time
		after    time.Duration
		again    time.Duration
	}{
		"First":    {reason: "what takes over a value follows in the next pass", parent: instance(intent), after: time.Second, again: 9 * time.Second},
		"Observed": {reason: "kro was late", parent: instance(intent), observed: at.Add(8 * time.Second), after: 10 * time.Second, again: 8 * time.Second},
		"Later":    {reason: "it stayed so", parent: instance(intent), observed: at.Add(time.Second), after: 11 * time.Second},
		"Before":   {reason: "it existed before Kausality", parent: instance(), after: time.Second},
	} {
		s := Observation{Parent: tc.parent, Observed: 2, Known: true, ObservedSince: tc.observed, Grace: 10 * time.Second, Now: at.Add(tc.after)}
		settled, again := s.Settles()
		if settled != (tc.again == 0) || again != tc.again {
			t.Errorf("%s: %s: settled %t, again after %s, want %s", name, tc.reason, settled, again, tc.again)
		}
	}
}
