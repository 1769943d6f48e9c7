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

// A drift is open until something shows that it is over (KR-10-05). TestResolved covers KR-05-65.
func TestResolved(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { v := metav1.NewTime(fx.Noon.Add(d)); return &v }
	drift := func(op string) *v1alpha1.Drift {
		return &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "id1", Operation: op, Intent: 5, Child: v1alpha1.ObjectReference{Name: "inst"}},
			Status: v1alpha1.DriftStatus{Since: at(-time.Minute), LastSeen: at(-time.Minute)}}
	}
	xr := func(mods ...fx.Mod) *parent.State {
		return parent.Sum(fx.With(fx.Composite(), mods...), parent.RoleComposite)
	}
	hop := fx.Hop(fx.Instance(), 4, "c")
	hop.Approval = &v1alpha1.HopApproval{Digest: "id1"}
	mr := parent.Sum(fx.Instance(), parent.RoleManaged)
	used := func(when string) fx.Mod {
		return fx.Annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"c","state":"used","digest":"id1","at":"`+when+`"}]`)
	}
	synced := func(o *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		list[0].(map[string]any)["lastTransitionTime"] = "2026-01-02T11:59:30Z"
		_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
	}
	approved := parent.Sum(fx.With(fx.Instance(), fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleManaged)
	type status = v1alpha1.DriftStatus
	held := func(intent int64, separated bool, ago time.Duration) status {
		return status{LastSeen: at(-ago), Intent: intent, Separated: separated, Held: &v1alpha1.HeldDrift{Drift: map[string]string{"spec.x": "1"}}}
	}
	putBack := held(5, true, 2*time.Hour)
	graph := func(ago time.Duration, reported int) *parent.State {
		o := fx.Object(fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: shop, generation: 3}
status: {state: Active, conditions: [{type: Ready, status: "True", observedGeneration: %d}]}`, reported))
		hop := fx.Hop(o, 3, "anna@example.com")
		hop.Timestamp = *at(ago)
		return parent.Sum(fx.With(o, fx.Annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleNone)
	}
	kro := subject.User{Name: "system:serviceaccount:kro-system:kro"}
	instance := func(state string, mods ...fx.Mod) *parent.State {
		o := fx.With(fx.Composite(), append(mods, fx.Set(state, "status", "state"), fx.Controllers(kro))...)
		return parent.Sum(o, parent.RoleInstance)
	}
	pending := fx.Annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"c","state":"pending","digest":"id1","at":"2026-01-02T11:59:30Z"}]`)
	settled := fx.Annotate(v1alpha1.AnnotationKeySettledGeneration, "8")
	cases := map[string]struct {
		reason   string
		op       string
		status   status
		p, child *parent.State
		graph    *parent.State
		user     string
		want     string
		asked    bool
	}{
		"Unresolved": {reason: "nothing changed", op: "UPDATE", p: xr(), child: mr, asked: true},
		"ParentGone": {op: "UPDATE", child: mr, want: "the parent is gone"},
		"ChildGone":  {op: "UPDATE", p: xr(), want: "the child was deleted", asked: true},
		"NotCreated": {reason: "a refused CREATE has no child", op: "CREATE", p: xr(), asked: true},
		"Approved": {reason: "the child's hop shows it", op: "UPDATE", p: xr(), child: approved, want: "it was approved",
			asked: true},
		"Intent": {op: "UPDATE", p: xr(fx.Unsettled), child: mr, want: "the parent has a new intent"},
		"HeldIntent": {reason: "an intent alone does not end what is held", op: "UPDATE", status: held(5, false, time.Minute),
			p: xr(fx.Unsettled, synced), child: mr, asked: true},
		"HeldSettled": {reason: "carried out without it", op: "UPDATE", status: held(5, false, time.Minute),
			p: xr(fx.Unsettled, settled), child: mr, want: "the parent has a new intent"},
		"HeldSeen": {reason: "it was seen since the intent", op: "UPDATE", status: held(8, true, time.Minute),
			p: xr(fx.Unsettled, settled, synced), child: mr, asked: true},
		"HeldUnseen": {reason: "nor is it attempted any more", op: "UPDATE", status: held(8, true, time.Hour),
			p: xr(fx.Unsettled, settled, synced), child: mr, want: "it is no longer attempted", asked: true},
		"HeldWorking": {reason: "as long as it works on the intent, nothing shows that", op: "UPDATE", status: held(8, true, time.Hour),
			p: xr(fx.Unsettled, synced), child: mr, asked: true},
		"Claim": {reason: "a DELETE leaves no hop", op: "DELETE", p: xr(used("2026-01-02T11:59:30Z")), child: mr,
			want: "it was approved"},
		"ClaimEarlier": {reason: "an approval of an earlier occurrence", op: "DELETE", p: xr(used("2026-01-02T11:58:00Z")), child: mr,
			asked: true},
		"DeletedByUse": {reason: "the child is gone before its claim is finished", op: "DELETE", p: xr(pending), want: "it was approved", asked: true},
		"ClaimedForUpdate": {reason: "an update was approved, which deletes nothing", op: "UPDATE", p: xr(pending), want: "the child was deleted",
			asked: true},
		"ClaimPending": {reason: "it is not known whether it was stored", op: "DELETE", p: xr(pending), child: mr, asked: true},
		"Withdrawn": {reason: "Crossplane composed everything since", op: "UPDATE", p: xr(synced), child: mr,
			want: "it is no longer attempted", asked: true},
		"OtherDeleted": {reason: "which shows nothing of what others want", op: "DELETE", user: "hans", p: xr(synced), child: mr, asked: true},
		"Unrecorded": {reason: "it is not known who Crossplane is", op: "DELETE", user: "hans", p: xr(synced, fx.Controllers()), child: mr,
			want: "it is no longer attempted", asked: true},
		"NeverCreated": {reason: "as above", op: "CREATE", p: xr(synced), want: "it is no longer attempted", asked: true},
		"ApprovedFor": {reason: "Crossplane composed everything since it was", op: "UPDATE", p: xr(synced), child: approved,
			want: "it was approved", asked: true},
		"Carried": {reason: "kro carried out all of it since it was refused", op: "CREATE", status: status{LastSeen: at(-3 * time.Minute)}, p: instance("ACTIVE"),
			want: "it is no longer attempted", asked: true},
		"Repeated": {reason: "it may be recorded a minute late", op: "CREATE", status: status{LastSeen: at(-90 * time.Second)}, p: instance("ACTIVE"), asked: true},
		"Failing":  {reason: "kro repeats it", op: "CREATE", status: status{LastSeen: at(-time.Hour)}, p: instance("ERROR"), asked: true},
		"OtherUser": {reason: "who is not kro does not repeat it", op: "UPDATE", user: "hans", status: status{LastSeen: at(-time.Hour)}, p: instance("ACTIVE"),
			child: mr, asked: true},
		"Pruned": {reason: "its state does not show that", op: "DELETE", status: status{LastSeen: at(-time.Hour)}, p: instance("ACTIVE"), child: mr, asked: true},
		"Working": {reason: "kro may not have come to the child", op: "UPDATE", status: putBack, p: instance("ACTIVE", fx.Unsettled), child: mr,
			graph: graph(-61*time.Minute, 3), asked: true},
		"EditFails": {reason: "nor here", op: "UPDATE", status: putBack, p: instance("ERROR"), child: mr, graph: graph(-61*time.Minute, 3), asked: true},
		"PutBack":   {reason: "kro knows nothing of it", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr, asked: true},
		"Edited": {reason: "the next edit of the graph has it no longer", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr,
			graph: graph(-61*time.Minute, 3), want: "it is no longer attempted", asked: true},
		"EditedBefore": {reason: "it was seen since", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr, graph: graph(-3*time.Hour, 3), asked: true},
		"EditedNow": {reason: "kro may take its time", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr,
			graph: graph(-59*time.Minute, 3), asked: true},
		"EditRejected": {reason: "kro did not carry it out", op: "UPDATE", status: putBack, p: instance("ACTIVE"), child: mr,
			graph: graph(-61*time.Minute, 2), asked: true},
		"DeletedSince": {reason: "as above", op: "DELETE", p: xr(synced), want: "the child was deleted", asked: true},
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
