package systems

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestPatch: gate annotation, the author's value and the field are one write, under
// the precondition that the object has not changed (KR-08-23).
func TestPatch(t *testing.T) {
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
		"Install": {
			reason: "the author's value is recorded",
			object: terraform("auto", nil), action: gating.ActionInstall,
			annotations: map[string]any{author: `"auto"`, gate: shown}, approve: "",
		},
		"Open": {
			reason: "for the pending plan; the author's value stays recorded",
			object: terraform("", masked), action: gating.ActionOpen,
			annotations: map[string]any{gate: shown}, approve: "plan-main-2",
		},
		"Close": {
			reason: "the field and the gate in one write",
			object: terraform("plan-main-2", map[string]any{author: `"auto"`, gate: `{"state":"open","at":null}`}), action: gating.ActionClose,
			annotations: map[string]any{author: `"auto"`, gate: shown}, approve: "",
		},
		"Mask": {
			reason: "closed again; the gate annotation stays",
			object: terraform("auto", masked), action: gating.ActionMask,
			annotations: map[string]any{author: `"auto"`}, approve: "",
		},
		"Restore": {
			reason: "nothing of ours is left",
			object: terraform("", masked), action: gating.ActionRestore,
			annotations: map[string]any{author: nil, gate: nil}, approve: json.RawMessage(`"auto"`),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.object.DeepCopy()
			got := Patch(tc.object, Flux{}, gating.Decision{Action: tc.action, Gate: g})
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
