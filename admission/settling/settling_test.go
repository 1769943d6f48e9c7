package settling

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// "An XR settles" (spec 3), clause by clause (KR-03-05, KR-03-07, KR-03-08).
func TestSettles(t *testing.T) {
	child := func(mods ...mod) *parent.State {
		return parent.Sum(with(instance(), append([]mod{synced, ready}, mods...)...), parent.RoleManaged)
	}
	plain := func(*Observation) {}
	conditions := func(status string) mod {
		return func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "conditions")
			condition("Synced", "True", "R", 7)(o)
			condition("Ready", status, "R", 7)(o)
		}
	}
	fresh := annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hopOf(composite(), 5, "alice"), trace.Hop(parent.RefOf(instance()), 3, "c", noon.Add(-2*time.Second))}.String())
	ahead := annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hopOf(composite(), 5, "alice"), hopOf(instance(), 4, "c")}.String())
	older := annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hopOf(composite(), 4, "alice"), hopOf(instance(), 3, "c")}.String())
	cases := map[string]struct {
		reason  string
		xr      []mod
		child   *parent.State
		change  func(*Observation)
		settled bool
		again   time.Duration
	}{
		"Settled":         {"all of it holds", nil, child(), plain, true, 0},
		"Deleting":        {"what is being deleted settles no more", []mod{deleting}, child(), plain, false, 0},
		"NotReady":        {"not converged", []mod{conditions("False")}, child(), plain, false, 0},
		"Grace":           {"converged without interruption for the grace", []mod{conditions("True")}, child(), func(s *Observation) { s.Now = time.Date(2026, 1, 2, 11, 30, 4, 0, time.UTC) }, false, 6 * time.Second},
		"Restarted":       {"which each write to a child's desired state restarts", nil, child(fresh), plain, false, 8 * time.Second},
		"JustAsked":       {"as the intent does: it may have come while Crossplane was reconciling", []mod{annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{trace.Hop(parent.RefOf(composite()), 5, "alice", noon.Add(-3*time.Second))}.String())}, child(older), plain, false, 7 * time.Second},
		"JustObserved":    {"and as it does that it is said to be observed", nil, child(), func(s *Observation) { s.ObservedSince = noon.Add(-time.Second) }, false, 9 * time.Second},
		"Unobserved":      {"observed before the intent", nil, child(), func(s *Observation) { s.Observed = 4 }, false, 0},
		"Unknown":         {"never observed", nil, child(), func(s *Observation) { s.Known = false }, false, 0},
		"NoChildren":      {"it has at least one resourceRef", []mod{set([]any{}, "spec", "resourceRefs")}, nil, plain, false, 0},
		"Missing":         {"a child that cannot be read says nothing", nil, child(), func(s *Observation) { s.Missing = true }, false, unwatchedAgain},
		"ChildUnsettled":  {"a child of this intent is not ready", nil, parent.Sum(with(instance(), synced), parent.RoleManaged), plain, false, 0},
		"ChildUnwatched":  {"of which nobody tells when it is", nil, parent.Sum(with(instance(), synced), parent.RoleManaged), func(s *Observation) { s.Unwatched = true }, false, unwatchedAgain},
		"OnlyUnwatched":   {"which matters only where it is not settled", nil, child(), func(s *Observation) { s.Unwatched = true }, true, 0},
		"ChildBehind":     {"or its provider has not seen the change", nil, parent.Sum(with(instance(), condition("Synced", "True", "R", 2), ready), parent.RoleManaged), plain, false, 0},
		"ChildMasked":     {"its author changed what the mask hides: no generation follows", nil, child(ahead), plain, true, 0},
		"ChildOfEarlier":  {"one of an earlier intent does not matter", nil, parent.Sum(with(instance(), older), parent.RoleManaged), plain, true, 0},
		"ChildOpen":       {"an open gate", nil, child(gateValue(openUpdate)), plain, false, 0},
		"Held":            {"the function holds something back", []mod{condition("Kausality", "False", v1alpha1.ConditionReasonHeld, 0)}, child(), plain, false, 0},
		"Frozen":          {"or is told to", []mod{condition("Kausality", "False", v1alpha1.ConditionReasonFrozen, 0)}, child(), plain, false, 0},
		"AllowedByFunctn": {"or does not", []mod{condition("Kausality", "True", v1alpha1.ConditionReasonAllowed, 0)}, child(), plain, true, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Observation{Parent: parent.Sum(with(composite(), tc.xr...), parent.RoleComposite), Observed: 7, Known: true, Grace: 10 * time.Second, Now: noon}
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
	d, _ := deploymentAndSet()
	other := parent.Sum(d, parent.RoleNone)
	other.Converged = true // kstatus is tested in parent
	if ok, _ := (Observation{Parent: other, Observed: 4, Known: true, Now: noon}).Settles(); !ok {
		t.Error("any other parent settles when it converged")
	}
}

// A claim goes back only if the write can be shown not to have landed (KR-05-36).
func TestClaimOutcome(t *testing.T) {
	claim := func(age time.Duration, uid, version string) v1alpha1.Claim {
		c := v1alpha1.Claim{ID: "c1", State: v1alpha1.ClaimPending, Child: &v1alpha1.ClaimChild{Kind: "Instance", Name: "inst", Version: version}}
		c.Child.UID, c.At.Time = parent.RefOf(instance()).UID, noon.Add(-age)
		if uid == "" {
			c.Child.UID = ""
		}
		return c
	}
	same := parent.Sum(instance(), parent.RoleManaged)
	hop := hopOf(instance(), 4, "c")
	hop.Approval = &v1alpha1.HopApproval{Claim: "c1"}
	used := parent.Sum(with(instance(), annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleManaged)
	moved := parent.Sum(with(instance(), set(int64(4), "metadata", "generation")), parent.RoleManaged)
	nameless := claim(time.Minute, "", "")
	nameless.Child.Name = ""
	cases := map[string]struct {
		reason string
		claim  v1alpha1.Claim
		child  *parent.State
		want   v1alpha1.ClaimState
	}{
		"Hop":           {"its id stands in the child's hop", claim(0, "u", "g3"), used, v1alpha1.ClaimUsed},
		"Early":         {"a write takes its time", claim(29*time.Second, "u", "g3"), same, ""},
		"Unchanged":     {"the child is as it was", claim(30*time.Second, "u", "g3"), same, v1alpha1.ClaimOpen},
		"Changed":       {"in doubt it stays used", claim(time.Minute, "u", "g3"), moved, v1alpha1.ClaimUsed},
		"Deleted":       {"a deletion that landed", claim(time.Minute, "u", "g3"), nil, v1alpha1.ClaimUsed},
		"NeverCreated":  {"a CREATE that never landed", claim(time.Minute, "", ""), nil, v1alpha1.ClaimOpen},
		"CreatedByElse": {"there is one, by whomever", claim(time.Minute, "", ""), same, v1alpha1.ClaimUsed},
		"Nameless":      {"a nameless CREATE cannot be looked up", nameless, nil, v1alpha1.ClaimUsed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ClaimOutcome(tc.claim, tc.child, noon); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
