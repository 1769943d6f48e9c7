package settling

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A drift stands until something shows that it does not (KR-10-05).
func TestResolved(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { v := metav1.NewTime(noon.Add(d)); return &v }
	drift := func(op string) *v1alpha1.Drift {
		return &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "id1", Operation: op, Intent: 5, Child: v1alpha1.ObjectReference{Name: "inst"}},
			Status: v1alpha1.DriftStatus{Since: at(-time.Minute), LastSeen: at(-time.Minute)}}
	}
	xr := func(mods ...mod) *parent.State { return parent.Sum(with(composite(), mods...), parent.RoleComposite) }
	hop := hopOf(instance(), 4, "c")
	hop.Approval = &v1alpha1.HopApproval{Digest: "id1"}
	mr := parent.Sum(instance(), parent.RoleManaged)
	used := func(when string) mod {
		return annotate(v1alpha1.AnnotationKeyClaims, `[{"content":"c","state":"used","digest":"id1","at":"`+when+`"}]`)
	}
	synced := func(o *unstructured.Unstructured) {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		list[0].(map[string]any)["lastTransitionTime"] = "2026-01-02T11:59:30Z"
		_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
	}
	approved := parent.Sum(with(instance(), annotate(v1alpha1.AnnotationKeyTrace, trace.Trace{hop}.String())), parent.RoleManaged)
	cases := map[string]struct {
		reason   string
		op       string
		p, child *parent.State
		want     string
		asked    bool
	}{
		"Stands":       {"nothing changed", "UPDATE", xr(), mr, "", true},
		"ParentGone":   {"", "UPDATE", nil, mr, "the parent is gone", false},
		"ChildGone":    {"", "UPDATE", xr(), nil, "the child was deleted", true},
		"NotCreated":   {"a refused CREATE has no child", "CREATE", xr(), nil, "", true},
		"Approved":     {"the child's hop shows it", "UPDATE", xr(), approved, "it was approved", true},
		"Intent":       {"", "UPDATE", xr(unsettled), mr, "the parent has a new intent", false},
		"Claim":        {"a DELETE leaves no hop", "DELETE", xr(used("2026-01-02T11:59:30Z")), mr, "it was approved", false},
		"ClaimEarlier": {"an approval of an earlier occurrence", "DELETE", xr(used("2026-01-02T11:58:00Z")), mr, "", true},
		"Withdrawn":    {"Crossplane composed everything since", "UPDATE", xr(synced), mr, "it is no longer attempted", true},
		"NeverCreated": {"as above", "CREATE", xr(synced), nil, "it is no longer attempted", true},
		"ApprovedFor":  {"Crossplane composed everything since it was", "UPDATE", xr(synced), approved, "it was approved", true},
		"DeletedSince": {"as above", "DELETE", xr(synced), nil, "the child was deleted", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			asked := false
			got, err := Resolved(drift(tc.op), tc.p, func() (*parent.State, error) { asked = true; return tc.child, nil })
			if got != tc.want || err != nil || asked != tc.asked {
				t.Errorf("%s: want %q, got %q, %v; the child was read: %t", tc.reason, tc.want, got, err, asked)
			}
			away := errors.New("away")
			if got, err := Resolved(drift(tc.op), tc.p, func() (*parent.State, error) { return nil, away }); tc.asked && (got != "" || !errors.Is(err, away)) {
				t.Errorf("the child cannot be read: got %q, %v", got, err)
			}
		})
	}
}
