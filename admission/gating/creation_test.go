package gating

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestCreationGrace covers KR-08-06: the gate of a creation stays open for a while after the managed resource is Ready, and never
// longer than its deadline.
func TestCreationGrace(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	const grace = 30 * time.Second
	managed := func(ready time.Time, opened time.Duration, verbs ...v1alpha1.Verb) Managed {
		gate := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: verbs, Generation: 1, At: metav1.Time{Time: now.Add(-opened)}, Reason: v1alpha1.GateReasonCreated}
		s := &parent.State{Role: parent.RoleManaged, Generation: 1, ManagementPolicies: []string{"Observe", "Create", "Update"},
			Annotations: map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`, v1alpha1.AnnotationKeyGate: mask.FormatGate(gate)},
			Conditions: []parent.Condition{{Type: "Synced", Status: metav1.ConditionTrue, ObservedGeneration: 1},
				{Type: "Ready", Status: metav1.ConditionTrue, LastTransitionTime: ready}}}
		return Managed{MR: s, Mode: v1alpha1.ModeEnforce, Observed: Observed{Comparable: true}, Deadline: time.Hour, Now: now, Live: true, CreationGrace: grace,
			Holders: []identity.Holder{{State: s}}}
	}
	creates := []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}
	for name, tc := range map[string]struct {
		g    Managed
		left time.Duration // 0 where it closes
	}{
		"JustReady":      {managed(now.Add(-time.Second), time.Minute, creates...), grace - time.Second},
		"Over":           {managed(now.Add(-grace), time.Minute, creates...), 0},
		"Deadline":       {managed(now, time.Hour-time.Second, creates...), time.Second},
		"NoTime":         {managed(time.Time{}, 10*time.Second, creates...), grace - 10*time.Second},
		"InTheFuture":    {managed(now.Add(24*time.Hour), 10*time.Second, creates...), grace - 10*time.Second},
		"NoCreation":     {managed(now, time.Minute, v1alpha1.VerbUpdate), 0},
		"DeadlinePassed": {managed(now, 2*time.Hour, creates...), 0},
	} {
		d := tc.g.Decide()
		switch {
		case tc.left == 0 && (d.Action != ActionClose || d.Gate.Reason != v1alpha1.GateReasonConfirmed):
			t.Errorf("%s: it stays open: %s %s", name, d.Action, d.Why)
		case tc.left > 0 && (d.Action != ActionNone || d.Again != tc.left):
			t.Errorf("%s: %s again in %s, want %s: %s", name, d.Action, d.Again, tc.left, d.Why)
		}
	}
}
