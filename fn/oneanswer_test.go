package fn

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// untold: the provider of an MR reports no generation, and nothing that could be
// compared with spec.forProvider.
func (s *stage) untold(name string) {
	s.setStatus(name, map[string]any{
		"atProvider": map[string]any{"arn": "x"},
		"conditions": []any{
			map[string]any{"type": "Synced", "status": "True", "lastTransitionTime": s.now.Format(time.RFC3339)},
			map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": s.now.Format(time.RFC3339)},
		},
	})
}

// The function closes a gate as the gate does: a provider that reports neither
// what it has seen nor what exists confirms nothing (KR-08-08), and only the
// deadline closes the gate (KR-08-09).
func TestGateStaysOpenUnconfirmed(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.created(want)
	s.wantPolicies("Observe")
	s.settle(want)

	s.untold("a")
	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	s.wantPolicies("Observe", "Update")
	s.stable(want) // the provider does nothing
	s.wantPolicies("Observe", "Update")

	s.now = s.now.Add(time.Hour)
	s.reconcile(want)
	s.wantPolicies("Observe")
	if g := mask.ParseGate(s.live["a"].GetAnnotations()); g.State != v1alpha1.GateClosed || g.Reason != v1alpha1.GateReasonExpired {
		t.Errorf("gate: %+v", g)
	}
	s.stable(want)
}

// An XR does not settle while its provider has not seen the change of a managed
// resource (KR-03-08), although its status is Synced and Ready as before.
func TestUnsettledWhileChildUnobserved(t *testing.T) {
	s := newStage(t, `{"mode":"enforce","settleGrace":"10s"}`)
	want := desire{"a": database(1)}
	s.reconcile(want)
	s.settle(want)

	s.intend(2)
	want["a"] = database(2)
	s.reconcile(want)
	s.wantWrites("update a")
	seen := s.live["a"].DeepCopy() // with the status of generation 1
	s.ready()
	status, _, _ := unstructured.NestedMap(seen.Object, "status")
	s.setStatus("a", status)
	for range 4 {
		s.now = s.now.Add(6 * time.Second)
		s.reconcile(want)
	}
	want["a"] = database(3)
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonAllowed) // a consequence of the intent, not drift
	s.wantWrites("update a")
}

// An approval of external drift on the composite opens the gate of a managed
// resource, as it does with a gate (KR-08-05); a once approval does so once, also
// where nothing keeps claims (KR-05-33).
func TestManagedGateApprovedDrift(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.created(want)
	s.confirm(1)
	s.settle(want)
	s.confirm(5) // changed in the cloud
	s.stable(want)
	s.wantPolicies("Observe")

	s.annotate(v1alpha1.AnnotationKeyApprovals, `[{"kind":"Database","name":"*","relation":"External","verbs":["Update"],"mode":"once"}]`)
	s.reconcile(want)
	s.wantWrites("update a")
	s.wantPolicies("Observe", "Update")
	s.stable(want) // until it is confirmed
	s.confirm(1)
	s.reconcile(want)
	s.wantPolicies("Observe")
	s.confirm(5) // once more
	s.stable(want)
	s.wantPolicies("Observe")
	s.annotate(v1alpha1.AnnotationKeyApprovals, "")
	s.reconcile(want)
	s.confirm(5)
	s.stable(want)
	s.wantPolicies("Observe")
}

// The deletion that an approval opened the gate for has a deadline, which uses
// the approval (KR-08-09).
func TestManagedGateDeletionExpires(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1), "b": plain("x")}
	s.created(want)
	s.confirm(1)
	s.settle(want)
	delete(want, "a")
	s.reconcile(want)
	s.wantWrites("hold a")
	s.annotate(s.suggested()[0], "once")
	s.reconcile(want)
	s.wantPolicies("Observe", "Delete")
	g := mask.ParseGate(s.live["a"].GetAnnotations())
	if g.Reason != v1alpha1.GateReasonDeletionApproved || g.DeleteAt == nil {
		t.Errorf("gate: %+v", g)
	}
	want["a"] = database(1) // wanted again
	s.reconcile(want)
	s.stable(want)
	s.now = s.now.Add(time.Hour)
	s.reconcile(want)
	s.wantPolicies("Observe")
	delete(want, "a")
	s.reconcile(want)
	s.stable(want)
	s.wantPolicies("Observe")
	s.wantReason(v1alpha1.ConditionReasonHeld)
}

// A freeze holds changes in mode log, too: the author's value is restored all the
// same, and not lost with the annotation that stores it (KR-08-16).
func TestManagedGateOffWhileFrozen(t *testing.T) {
	s := newStage(t, managed)
	want := desire{"a": database(1)}
	s.created(want)
	s.wantPolicies("Observe")
	s.annotate(v1alpha1.AnnotationKeyFreeze, "true")
	s.input = `{"gate":{"managementPolicies":"Managed"}}`
	want["a"] = database(2)
	s.reconcile(want)
	s.wantReason(v1alpha1.ConditionReasonFrozen)
	s.wantPolicies("*")
	s.stable(want)
}
