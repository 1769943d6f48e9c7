package gate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestForeignOpenFor: an opening of an external system's gate is counted like that of
// a managed resource.
func TestForeignOpenFor(t *testing.T) {
	open := v1alpha1.Gate{State: v1alpha1.GateOpen, At: metav1.NewTime(time.Now().Add(-time.Minute)), Reason: v1alpha1.GateReasonApproved}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "infra.contrib.fluxcd.io/v1alpha2", "kind": "Terraform",
		"metadata": map[string]any{"name": "net", "annotations": map[string]any{v1alpha1.AnnotationKeyGate: mask.FormatGate(open)}}}}
	f := &foreign{core: &core{reporter: &reporter{events: events.NewFakeRecorder(1)}}}
	before := observed(t, external.OverFailed)
	d := gating.Decision{Action: gating.ActionClose, Gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: external.OverFailed}}
	f.announce(&states.Object{State: parent.Sum(u, parent.RoleNone)}, systems.Flux{}, gating.Managed{}, d, external.StateClosed)
	if after := observed(t, external.OverFailed); after != before+1 {
		t.Errorf("%d openings that failed were counted, before %d", after, before)
	}
}

// observed openings that ended for a reason.
func observed(t *testing.T, reason string) uint64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "kausality_gate_open_seconds" && m.GetLabel()[0].GetValue() == reason {
				return m.GetHistogram().GetSampleCount()
			}
		}
	}
	return 0
}
