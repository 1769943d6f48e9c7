package settling

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ago is a time before noon.
func ago(d time.Duration) *metav1.Time { v := metav1.NewTime(fx.Noon.Add(-d)); return &v }

// composite with mods.
func composite(mods ...fx.Mod) *parent.State {
	return parent.Sum(fx.With(fx.Composite(), mods...), parent.RoleComposite)
}

// synced since the drift was seen.
func synced(o *unstructured.Unstructured) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	list[0].(map[string]any)["lastTransitionTime"] = "2026-01-02T11:59:30Z"
	_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
}

// seen is what a Drift has of when it was seen last.
func seen(before time.Duration) v1alpha1.DriftStatus {
	return v1alpha1.DriftStatus{LastSeen: ago(before)}
}

// held is what a Drift has of a change that was held, at an intent, and when it was seen last.
func held(intent int64, separated bool, before time.Duration) v1alpha1.DriftStatus {
	return v1alpha1.DriftStatus{LastSeen: ago(before), Intent: intent, Separated: separated, Held: &v1alpha1.HeldDrift{Drift: map[string]string{"spec.x": "1"}}}
}

// managed resource of the composite.
func managed() *parent.State { return parent.Sum(fx.Instance(), parent.RoleManaged) }

// approvedManaged is one whose hop has the approval of the drift.
func approvedManaged() *parent.State {
	hop := fx.Hop(fx.Instance(), 4, "c")
	hop.Approval = &v1alpha1.HopApproval{Digest: "id1"}
	return parent.Sum(fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleManaged)
}

var kro = subject.User{Name: "system:serviceaccount:kro-system:kro"}

// resolvedCase is a drift with its parent and child, and what shows that it is over; "" for nothing.
type resolvedCase struct {
	reason   string
	op       string
	status   v1alpha1.DriftStatus
	p, child *parent.State
	graph    *parent.State
	user     string
	want     string
	asked    bool
}

// testResolved checks what shows that drifts are over, and that the child is read only where it matters.
func testResolved(t *testing.T, cases map[string]resolvedCase) {
	t.Helper()
	drift := func(op string) *v1alpha1.Drift {
		return &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "id1", Operation: op, Intent: 5, Child: v1alpha1.ObjectReference{Name: "inst"}},
			Status: v1alpha1.DriftStatus{Since: ago(time.Minute), LastSeen: ago(time.Minute)}}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked := false
			d := drift(tc.op)
			if d.Spec.User = cmp.Or(tc.user, fx.Crossplane.Name); tc.p != nil && tc.p.Role == parent.RoleInstance {
				d.Spec.User = cmp.Or(tc.user, kro.Name)
			}
			if tc.status.LastSeen != nil {
				tc.status.Since = d.Status.Since
				d.Status = tc.status
			}
			got, err := Resolved(d, tc.p, tc.graph, fx.Noon, func() (*parent.State, error) { asked = true; return tc.child, nil })
			if got != tc.want || err != nil || asked != tc.asked {
				t.Errorf("%s: want %q, got %q, %v; the child was read: %t", tc.reason, tc.want, got, err, asked)
			}
			away := errors.New("away")
			if got, err := Resolved(d, tc.p, tc.graph, fx.Noon, func() (*parent.State, error) { return nil, away }); tc.asked && (got != "" || !errors.Is(err, away)) {
				t.Errorf("the child cannot be read: got %q, %v", got, err)
			}
		})
	}
}

// TestResolved covers KR-10-05: a drift is open until something shows that it is over.
func TestResolved(t *testing.T) {
	mr, approved := managed(), approvedManaged()
	testResolved(t, map[string]resolvedCase{
		"Unresolved": {reason: "nothing changed", op: "UPDATE", p: composite(), child: mr, asked: true},
		"ParentGone": {op: "UPDATE", child: mr, want: "the parent is gone"},
		"ChildGone":  {op: "UPDATE", p: composite(), want: "the child was deleted", asked: true},
		"NotCreated": {reason: "a refused CREATE has no child", op: "CREATE", p: composite(), asked: true},
		"Approved": {reason: "the child's hop shows it", op: "UPDATE", p: composite(), child: approved, want: "it was approved",
			asked: true},
		"Intent": {op: "UPDATE", p: composite(fx.Unsettled), child: mr, want: "the parent has a new intent"},
		"Withdrawn": {reason: "Crossplane composed everything since", op: "UPDATE", p: composite(synced), child: mr,
			want: "it is no longer attempted", asked: true},
		"OtherDeleted": {reason: "which shows nothing of what others want", op: "DELETE", user: "hans", p: composite(synced), child: mr, asked: true},
		"Unrecorded": {reason: "it is not known who Crossplane is", op: "DELETE", user: "hans", p: composite(synced, fx.Controllers()), child: mr,
			want: "it is no longer attempted", asked: true},
		"NeverCreated": {reason: "as above", op: "CREATE", p: composite(synced), want: "it is no longer attempted", asked: true},
		"ApprovedFor": {reason: "Crossplane composed everything since it was", op: "UPDATE", p: composite(synced), child: approved,
			want: "it was approved", asked: true},
		"DeletedSince": {reason: "as above", op: "DELETE", p: composite(synced), want: "the child was deleted", asked: true},
	})
}

// TestResolvedHeld covers KR-05-65: what is held ends once an intent was carried out without it.
func TestResolvedHeld(t *testing.T) {
	mr, settled := managed(), fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "8")
	testResolved(t, map[string]resolvedCase{
		"HeldIntent": {reason: "an intent alone does not end what is held", op: "UPDATE", status: held(5, false, time.Minute),
			p: composite(fx.Unsettled, synced), child: mr, asked: true},
		"HeldSettled": {reason: "carried out without it", op: "UPDATE", status: held(5, false, time.Minute),
			p: composite(fx.Unsettled, settled), child: mr, want: "the parent has a new intent"},
		"HeldSeen": {reason: "it was seen since the intent", op: "UPDATE", status: held(8, true, time.Minute),
			p: composite(fx.Unsettled, settled, synced), child: mr, asked: true},
		"HeldUnseen": {reason: "nor is it attempted any more", op: "UPDATE", status: held(8, true, time.Hour),
			p: composite(fx.Unsettled, settled, synced), child: mr, want: "it is no longer attempted", asked: true},
		"HeldWorking": {reason: "as long as it works on the intent, nothing shows that", op: "UPDATE", status: held(8, true, time.Hour),
			p: composite(fx.Unsettled, synced), child: mr, asked: true},
	})
}

// TestResolvedByClaim covers KR-10-05: the claim of an approval shows that it was used, where no child does.
func TestResolvedByClaim(t *testing.T) {
	mr := managed()
	used := func(when string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"c","state":"used","digest":"id1","at":"`+when+`"}]`)
	}
	pending := fx.Annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"c","state":"pending","digest":"id1","at":"2026-01-02T11:59:30Z"}]`)
	testResolved(t, map[string]resolvedCase{
		"Claim": {reason: "a DELETE leaves no hop", op: "DELETE", p: composite(used("2026-01-02T11:59:30Z")), child: mr,
			want: "it was approved"},
		"ClaimEarlier": {reason: "an approval of an earlier occurrence", op: "DELETE", p: composite(used("2026-01-02T11:58:00Z")), child: mr,
			asked: true},
		"DeletedByUse": {reason: "the child is gone before its claim is finished", op: "DELETE", p: composite(pending), want: "it was approved", asked: true},
		"ClaimedForUpdate": {reason: "an update was approved, which deletes nothing", op: "UPDATE", p: composite(pending), want: "the child was deleted",
			asked: true},
		"ClaimPending": {reason: "it is not known whether it was stored", op: "DELETE", p: composite(pending), child: mr, asked: true},
	})
}

// TestResolvedByKro covers KR-10-05: the state of an instance, and an edit of its graph, show what kro attempts.
func TestResolvedByKro(t *testing.T) {
	mr, putBack := managed(), held(5, true, 2*time.Hour)
	graph := func(edited time.Duration, reported int) *parent.State {
		o := fx.Object(fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop, generation: 3}
status: {state: Active, conditions: [{type: Ready, status: "True", observedGeneration: %d}]}`, reported))
		hop := fx.Hop(o, 3, "anna@example.com")
		hop.Timestamp = *ago(edited)
		return parent.Sum(fx.With(o, fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleNone)
	}
	instance := func(state string, mods ...fx.Mod) *parent.State {
		o := fx.With(fx.Composite(), append(mods, fx.Set(state, "status", "state"), fx.Controllers(kro))...)
		return parent.Sum(o, parent.RoleInstance)
	}
	testResolved(t, map[string]resolvedCase{
		"Carried": {reason: "kro carried out all of it since it was refused", op: "CREATE", status: seen(3 * time.Minute), p: instance("ACTIVE"),
			want: "it is no longer attempted", asked: true},
		"Repeated": {reason: "it may be recorded a minute late", op: "CREATE", status: seen(90 * time.Second), p: instance("ACTIVE"), asked: true},
		"Failing":  {reason: "kro repeats it", op: "CREATE", status: seen(time.Hour), p: instance("ERROR"), asked: true},
		"OtherUser": {reason: "who is not kro does not repeat it", op: "UPDATE", user: "hans", status: seen(time.Hour), p: instance("ACTIVE"),
			child: mr, asked: true},
		"Pruned": {reason: "its state does not show that", op: "DELETE", status: seen(time.Hour), p: instance("ACTIVE"), child: mr, asked: true},
		"Working": {reason: "kro may not have come to the child", op: "UPDATE", status: putBack, p: instance("ACTIVE", fx.Unsettled), child: mr,
			graph: graph(61*time.Minute, 3), asked: true},
		"EditFails": {reason: "nor here", op: "UPDATE", status: putBack, p: instance("ERROR"), child: mr, graph: graph(61*time.Minute, 3), asked: true},
		"PutBack":   {reason: "kro knows nothing of it", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr, asked: true},
		"Edited": {reason: "the next edit of the graph has it no longer", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr,
			graph: graph(61*time.Minute, 3), want: "it is no longer attempted", asked: true},
		"EditedBefore": {reason: "it was seen since", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr, graph: graph(3*time.Hour, 3), asked: true},
		"EditedNow": {reason: "kro may take its time", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr,
			graph: graph(59*time.Minute, 3), asked: true},
		"EditRejected": {reason: "kro did not carry it out", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr,
			graph: graph(61*time.Minute, 2), asked: true},
	})
}

// TestApprovalOf covers KR-14-63: who approved is in the trace of the child, else in the claims of an object that has the approval.
func TestApprovalOf(t *testing.T) {
	since := metav1.NewTime(fx.Noon)
	d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "id1"}, Status: v1alpha1.DriftStatus{Since: &since}}
	child := func(a *v1alpha1.HopApproval) *parent.State {
		hop := fx.Hop(fx.Instance(), 4, "c")
		hop.Approval = a
		return parent.Sum(fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleManaged)
	}
	holder := func(claims string) *parent.State {
		return parent.Sum(fx.With(fx.Composite(), fx.Annotate(v1alpha1.AnnotationKeyClaims, claims)), parent.RoleComposite)
	}
	voted := holder(`[{"content":"c","state":"used","digest":"id1","at":"2026-01-02T12:00:01Z","by":[{"user":"anna"},{"user":"bob"}]}]`)
	counted := holder(`[{"content":"c","state":"used","digest":"id1","at":"2026-01-02T12:00:01Z","by":[{"user":"anna"},{"user":"bob"}],` +
		`"counted":[{"user":"bob"}]}]`)
	for name, tc := range map[string]struct {
		child *parent.State
		on    []*parent.State
		want  string
	}{
		"Trace": {child: child(&v1alpha1.HopApproval{Digest: "id1", By: []v1alpha1.Vote{{User: "bob"}}}), on: []*parent.State{voted},
			want: ", by bob"},
		"Policy":          {child: child(&v1alpha1.HopApproval{Digest: "id1", Policy: "UpgradeAllowance/a"}), want: ", by UpgradeAllowance/a"},
		"Claims":          {child: child(nil), on: []*parent.State{nil, holder("[]"), voted}, want: ", by anna and bob"},
		"Counted":         {on: []*parent.State{counted}, want: ", by bob"},
		"OtherDifference": {child: child(&v1alpha1.HopApproval{Digest: "id2", By: []v1alpha1.Vote{{User: "bob"}}})},
		"None":            {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := approval.ByText(ApprovalOf(d, tc.child, tc.on...)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
