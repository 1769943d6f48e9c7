package gate

import (
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Which Drifts are of refusals that nobody may come back to.
func TestWakes(t *testing.T) {
	refused := v1alpha1.Drift{Spec: v1alpha1.DriftSpec{Operation: "UPDATE", Relation: v1alpha1.RelationControllerChild, Parent: v1alpha1.ObjectReference{Name: "db"}},
		Status: v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected}}
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.Drift)
		want   bool
	}{
		"Refused":       {"a change of a child", func(*v1alpha1.Drift) {}, true},
		"Resolved":      {"it stands no more", func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved }, false},
		"External":      {"external drift is no refusal", func(d *v1alpha1.Drift) { d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "" }, false},
		"PersonsDelete": {"a person comes back", func(d *v1alpha1.Drift) { d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "DELETE" }, false},
		"Repeated":      {"a controller's deletion", func(d *v1alpha1.Drift) { d.Spec.Relation, d.Status.RepeatFor = v1alpha1.RelationExternal, "gc" }, true},
		"NoParent":      {"nobody to wake", func(d *v1alpha1.Drift) { d.Spec.Parent.Name = "" }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := refused.DeepCopy()
			tc.change(d)
			if got := wakes(d); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// A change is remembered for its Namespace alone, and no longer than it matters;
// a refusal made after it was made in spite of it.
func TestChangedSince(t *testing.T) {
	c, before, after := &Controller{}, time.Now().Add(-time.Second), time.Now().Add(skew+time.Second)
	if c.changedSince(before, "", "a") {
		t.Error("nothing changed yet")
	}
	c.noteChange("a")
	if !c.changedSince(before, "", "a") || c.changedSince(before, "", "b") {
		t.Error("a changed, and b did not")
	}
	if c.changedSince(after, "", "a") {
		t.Error("who refused knew of the change")
	}
	c.changedAt["a"] = time.Now().Add(-2 * lately)
	c.noteChange("b")
	if c.changedSince(before.Add(-time.Hour), "a") || len(c.changedAt) != 1 {
		t.Errorf("what is long ago is kept: %v", c.changedAt)
	}
}

// Refused deletions are found by the object that was to go.
func TestIndexDeletion(t *testing.T) {
	d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{Operation: "DELETE", Relation: v1alpha1.RelationExternal, Child: v1alpha1.ObjectReference{UID: "mr-uid"}}}
	if got := IndexDeletion(d); len(got) != 1 || got[0] != "mr-uid" {
		t.Errorf("got %v", got)
	}
	d.Spec.Relation = v1alpha1.RelationControllerChild
	if got := IndexDeletion(d); got != nil {
		t.Errorf("a deletion that orphans nothing: %v", got)
	}
}
