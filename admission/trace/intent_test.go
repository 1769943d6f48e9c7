package trace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// xr at a generation, with its own hop at own (0: never traced) at noon, and
// one managedFields entry.
func xr(generation, own int64, entry map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": "xr", "generation": generation, "creationTimestamp": "2026-01-01T00:00:00Z"}
	if own > 0 {
		h := hop("XR", "")
		h.Generation = own
		meta["annotations"] = map[string]any{v1alpha1.AnnotationKeyTrace: Trace{hop("Claim", "team"), h}.String()}
	}
	fields := []any{map[string]any{"manager": "crossplane-status", "operation": "Apply", "subresource": "status", "time": "2026-01-02T13:00:00Z",
		"fieldsV1": map[string]any{"f:status": map[string]any{"f:x": map[string]any{}}}}}
	if entry != nil {
		fields = append(fields, entry)
	}
	meta["managedFields"] = fields
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "XR", "metadata": meta, "spec": map[string]any{"size": "s"}}}
}

func entry(manager, subresource string, at time.Time, fields map[string]any) map[string]any {
	out := map[string]any{"manager": manager, "operation": "Update", "time": at.Format(time.RFC3339), "fieldsV1": fields}
	if subresource != "" {
		out["subresource"] = subresource
	}
	return out
}

func TestIntent(t *testing.T) {
	spec := func(field string) map[string]any {
		return map[string]any{"f:spec": map[string]any{"f:" + field: map[string]any{}}}
	}
	later, soon := noon.Add(time.Minute), noon.Add(5*time.Second)
	cases := map[string]struct {
		reason       string
		object       *unstructured.Unstructured
		role         parent.Role
		want         int64
		unattributed bool
	}{
		"Traced":             {"the last hop of its own trace", xr(2, 2, nil), parent.RoleComposite, 2, false},
		"BumpedByCrossplane": {"a later generation is no intent", xr(7, 2, nil), parent.RoleComposite, 2, false},
		"NeverTraced":        {"an unattributed hop at its generation", xr(7, 0, nil), parent.RoleComposite, 7, true},
		"ChangedWhileAway":   {"managedFields show an intent newer than the hop", xr(7, 2, entry("kubectl", "", later, spec("size"))), parent.RoleComposite, 7, true},
		"AwayWithoutBump":    {"the generation did not move: no desired state was changed", xr(2, 2, entry("kubectl", "", later, spec("size"))), parent.RoleComposite, 2, false},
		"OlderThanTheHop":    {"that one was traced", xr(7, 2, entry("kubectl", "", noon, spec("size"))), parent.RoleComposite, 2, false},
		"WithinTolerance":    {"times are whole seconds, and the store comes after admission", xr(7, 2, entry("kubectl", "", soon, spec("size"))), parent.RoleComposite, 2, false},
		"Metadata":           {"annotations are no intent", xr(7, 2, entry("kubectl", "", later, map[string]any{"f:metadata": map[string]any{"f:annotations": map[string]any{"f:a": map[string]any{}}}})), parent.RoleComposite, 2, false},
		"Machinery":          {"Crossplane's machinery is no intent", xr(7, 2, entry("crossplane", "", later, spec("resourceRefs"))), parent.RoleComposite, 2, false},
		"MachineryModern":    {"nor is spec.crossplane", xr(7, 2, entry("crossplane", "", later, map[string]any{"f:spec": map[string]any{"f:crossplane": map[string]any{"f:resourceRefs": map[string]any{}}}})), parent.RoleComposite, 2, false},
		"MachineryElsewhere": {"another kind's resourceRefs are its author's", xr(7, 2, entry("kubectl", "", later, spec("resourceRefs"))), parent.RoleNone, 7, true},
		"OwnController":      {"a manager that also writes the status is no person", xr(7, 2, entry("crossplane-status", "", later, spec("size"))), parent.RoleComposite, 2, false},
		"Scale":              {"every scale entry is an intent", xr(7, 2, entry("kubectl", "scale", later, spec("replicas"))), parent.RoleNone, 7, true},
		"ScaleByController":  {"by whomever", xr(7, 2, entry("crossplane-status", "scale", later, spec("replicas"))), parent.RoleNone, 7, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.object.DeepCopy()
			s := parent.Sum(tc.object, tc.role)
			got, recorded := Intent(s)
			if got.Generation != tc.want || got.Unattributed != tc.unattributed || recorded == tc.unattributed {
				t.Errorf("%s: got generation %d, unattributed %t, recorded %t", tc.reason, got.Generation, got.Unattributed, recorded)
			}
			if got.Unattributed && got.User != "" {
				t.Errorf("%s: blames %q", tc.reason, got.User)
			}
			current := Current(s)
			if diff := cmp.Diff(got, *current.Own()); diff != "" {
				t.Errorf("%s: Current does not end in the intent:\n%s", tc.reason, diff)
			}
			if n := len(current); recorded && n != 2 || !recorded && n != 1 {
				t.Errorf("%s: %d hops; the stored trace stays whole, an unattributed intent stands alone", tc.reason, n)
			}
			if diff := cmp.Diff(before, tc.object); diff != "" {
				t.Errorf("%s: input modified:\n%s", tc.reason, diff)
			}
		})
	}
}

// Kinds without a generation have the time alone.
func TestIntentWithoutGeneration(t *testing.T) {
	h := hop("CM", "")
	h.Generation = 0
	s := &parent.State{Ref: ref("CM", "team"), Annotations: map[string]string{v1alpha1.AnnotationKeyTrace: Trace{h}.String()}}
	if got, recorded := Intent(s); !recorded || got.User != "alice" {
		t.Errorf("unchanged since the hop: got %+v", got)
	}
	s.IntentTime = noon.Add(time.Minute)
	if got, recorded := Intent(s); recorded || !got.Unattributed || !got.Timestamp.Equal(&metav1.Time{Time: s.IntentTime}) {
		t.Errorf("changed while away: got %+v", got)
	}
}
