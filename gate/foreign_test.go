package gate

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// Gate annotation, memory and field are one write, under the version that was
// looked at.
func TestForeignPatch(t *testing.T) {
	const author, gate = v1alpha1.AnnotationKeyExternalAuthor, v1alpha1.AnnotationKeyGate
	terraform := func(approve string, annotations map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "infra.contrib.fluxcd.io/v1alpha2", "kind": "Terraform",
			"metadata": map[string]any{"name": "net", "uid": "tf", "resourceVersion": "30", "annotations": annotations},
			"spec":     map[string]any{"approvePlan": approve}, "status": map[string]any{"plan": map[string]any{"pending": "plan-main-2"}}}}
	}
	masked := map[string]any{author: `"auto"`}
	g := v1alpha1.Gate{State: v1alpha1.GateClosed, Generation: 4, At: metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))}
	shown := `{"state":"closed","generation":4,"at":"2026-01-02T00:00:00Z"}`
	cases := map[string]struct {
		reason      string
		object      *unstructured.Unstructured
		action      gating.Action
		annotations map[string]any
		approve     any
	}{
		"Install": {"the author's value is remembered", terraform("auto", nil), gating.ActionInstall, map[string]any{author: `"auto"`, gate: shown}, ""},
		"Open":    {"for the pending plan; what is remembered stays", terraform("", masked), gating.ActionOpen, map[string]any{gate: shown}, "plan-main-2"},
		"Close":   {"", terraform("plan-main-2", map[string]any{author: `"auto"`, gate: `{"state":"open","at":null}`}), gating.ActionClose, map[string]any{author: `"auto"`, gate: shown}, ""},
		"Mask":    {"again; the gate stays as it is", terraform("auto", masked), gating.ActionMask, map[string]any{author: `"auto"`}, ""},
		"Restore": {"nothing of ours is left", terraform("", masked), gating.ActionRestore, map[string]any{author: nil, gate: nil}, json.RawMessage(`"auto"`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.object.DeepCopy()
			got := foreignPatch(tc.object, systems.Flux{}, gating.Decision{Action: tc.action, Gate: g})
			meta, _ := got["metadata"].(map[string]any)
			if meta["resourceVersion"] != "30" || meta["uid"] != tc.object.GetUID() {
				t.Errorf("%s: no precondition: %v", tc.reason, meta)
			}
			if diff := cmp.Diff(tc.annotations, meta["annotations"]); diff != "" {
				t.Errorf("%s: annotations: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(map[string]any{"approvePlan": tc.approve}, got["spec"]); diff != "" {
				t.Errorf("%s: spec: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, tc.object); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// What an object of an external system was open for counts as that of a managed
// resource does.
func TestForeignOpenFor(t *testing.T) {
	open := v1alpha1.Gate{State: v1alpha1.GateOpen, At: metav1.NewTime(time.Now().Add(-time.Minute)), Reason: v1alpha1.GateReasonApproved}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "infra.contrib.fluxcd.io/v1alpha2", "kind": "Terraform",
		"metadata": map[string]any{"name": "net", "annotations": map[string]any{v1alpha1.AnnotationKeyGate: mask.FormatGate(open)}}}}
	c := &Controller{Events: events.NewFakeRecorder(1)}
	before := observed(t, external.OverFailed)
	d := gating.Decision{Action: gating.ActionClose, Gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: external.OverFailed}}
	c.tellForeign(&cluster.Object{State: parent.Sum(u, parent.RoleNone)}, systems.Flux{}, d, external.StateClosed)
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
