package gating

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestNoChange covers KR-08-46: a gate does not stay open for what its provider does not
// change, and the report suggests no approval.
func TestNoChange(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	gate := func(state v1alpha1.GateState) string {
		return `{"state":"` + string(state) + `","verbs":["Update"],"generation":3,"at":"2026-01-02T11:59:00Z","reason":"Approved",` +
			`"paths":["spec.forProvider.manifest.data.a"]}`
	}
	managed := func(state v1alpha1.GateState, synced int64) Managed {
		policies := []string{"Observe"}
		if state == v1alpha1.GateOpen {
			policies = []string{"Observe", "Update"}
		}
		s := &parent.State{Role: parent.RoleManaged, Generation: 3, ManagementPolicies: policies,
			Annotations: map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`, v1alpha1.AnnotationKeyGate: gate(state)},
			Conditions:  []parent.Condition{{Type: "Synced", Status: metav1.ConditionTrue, ObservedGeneration: synced}}}
		return Managed{MR: s, Mode: v1alpha1.ModeEnforce, Deadline: time.Hour, Now: now, Live: true,
			Observed: Observed{Comparable: true, Inert: true,
				Difference: []change.Change{{Path: "spec.forProvider.manifest.data.a", Verb: change.Mutate, Old: "99", New: "11"}}},
			Holders: []identity.Holder{{State: s}}}
	}
	if d := managed(v1alpha1.GateOpen, 3).Decide(); d.Action != ActionClose || d.Gate.Reason != v1alpha1.GateReasonExpired {
		t.Errorf("it has observed the opening: %s %+v %s", d.Action, d.Gate, d.Why)
	}
	if d := managed(v1alpha1.GateOpen, 2).Decide(); d.Action != ActionNone {
		t.Errorf("it has not observed it yet: %s %+v", d.Action, d.Gate)
	}
	acts := managed(v1alpha1.GateOpen, 3)
	if acts.Inert = false; acts.Decide().Action != ActionNone {
		t.Error("a provider that acts has its deadline")
	}
	d := managed(v1alpha1.GateClosed, 3).Decide()
	if d.Drift == nil || d.Drift.SuggestedApproval != "" || !strings.Contains(d.Drift.Cause, "makes no change") {
		t.Errorf("report: %+v", d.Drift)
	}
	acts = managed(v1alpha1.GateClosed, 3)
	acts.Inert = false
	if d := acts.Decide(); d.Drift == nil || d.Drift.SuggestedApproval == "" {
		t.Errorf("report: %+v", d.Drift)
	}
}
