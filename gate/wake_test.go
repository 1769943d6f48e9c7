package gate

import (
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestNeedsWake: which Drifts are of refusals that their controller may not retry
// (KR-08-20).
func TestNeedsWake(t *testing.T) {
	refused := v1alpha1.Drift{
		Spec:   v1alpha1.DriftSpec{Operation: "UPDATE", Relation: v1alpha1.RelationControllerChild, Parent: v1alpha1.ObjectReference{Name: "db"}},
		Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected},
	}
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Drift)
		want   bool
	}{
		"Refused":  {reason: "a change of a child", change: func(*v1alpha1.Drift) {}, want: true},
		"Resolved": {reason: "it was resolved", change: func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved }},
		"External": {
			reason: "external drift is no refusal",
			change: func(d *v1alpha1.Drift) { d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "" },
		},
		"UsersDelete": {
			reason: "users retry themselves",
			change: func(d *v1alpha1.Drift) { d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "DELETE" },
		},
		"Repeated": {
			reason: "a controller's deletion",
			change: func(d *v1alpha1.Drift) { d.Spec.Relation, d.Status.RepeatFor = v1alpha1.RelationExternal, "gc" }, want: true,
		},
		"NoParent": {reason: "there is nothing to wake", change: func(d *v1alpha1.Drift) { d.Spec.Parent.Name = "" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := refused.DeepCopy()
			tc.change(d)
			if got := needsWake(d); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestRelaxations: a change is remembered for its Namespace alone, for as long as
// refusals from before it may be recorded.
func TestRelaxations(t *testing.T) {
	r, before, after := &relaxations{}, time.Now().Add(-time.Second), time.Now().Add(clockSkew+time.Second)
	if r.since(before, "", "a") {
		t.Error("nothing changed yet")
	}
	r.note("a")
	if !r.since(before, "", "a") || r.since(before, "", "b") {
		t.Error("a changed, and b did not")
	}
	if r.since(after, "", "a") {
		t.Error("the refusal was made after the change")
	}
	r.at["a"] = time.Now().Add(-2 * recent)
	r.note("b")
	if r.since(before.Add(-time.Hour), "a") || len(r.at) != 1 {
		t.Errorf("an old change is kept: %v", r.at)
	}
}

// TestIndexDeletion: Drifts of refused deletions are found by the object that was to
// be deleted (KR-08-13).
func TestIndexDeletion(t *testing.T) {
	d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{Operation: "DELETE", Relation: v1alpha1.RelationExternal, Child: v1alpha1.ObjectReference{UID: "mr-uid"}}}
	if got := indexDeletion(d); len(got) != 1 || got[0] != "mr-uid" {
		t.Errorf("got %v", got)
	}
	d.Spec.Relation = v1alpha1.RelationControllerChild
	if got := indexDeletion(d); got != nil {
		t.Errorf("a deletion that orphans nothing: %v", got)
	}
}
