package gating

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Who takes a gate away finishes what it was open by, and nothing else (KR-08-17).
func TestSpendOpening(t *testing.T) {
	const key = v1alpha1.AnnotationKeyApprovePrefix + "1f2e3d4c5b6a7980"
	at := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	content := approval.Parse(map[string]string{key: "once"}).Approvals[0].Content
	holder := func(state v1alpha1.ClaimState, id string) map[string]string {
		claims := approval.Claims{{Content: content, State: state, At: at, ID: id}}
		return map[string]string{key: "once", v1alpha1.AnnotationKeyClaims: claims.String(), "example.org/a": "b"}
	}
	cases := map[string]struct {
		reason string
		gate   v1alpha1.Gate
		holder map[string]string
		spent  bool
	}{
		"Open":         {"its approval is used", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c1"}, holder(v1alpha1.ClaimPending, "c1"), true},
		"Closed":       {"nobody noted yet that it is used", v1alpha1.Gate{State: v1alpha1.GateClosed, At: at, Claim: "c1"}, holder(v1alpha1.ClaimPending, "c1"), true},
		"Several":      {"one of them is held elsewhere", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c0,c1"}, holder(v1alpha1.ClaimPending, "c1"), true},
		"OfAnother":    {"another gate is open by it", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c2"}, holder(v1alpha1.ClaimPending, "c1"), false},
		"NotByOne":     {"it is open by a change", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at}, holder(v1alpha1.ClaimOpen, ""), false},
		"UsedAlready":  {"", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c1"}, holder(v1alpha1.ClaimUsed, "c1"), false},
		"NobodyHolds":  {"", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c1"}, nil, false},
		"DeletionOfXR": {"it is named by its content", v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: content}, holder(v1alpha1.ClaimOpen, ""), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mr := &parent.State{Annotations: map[string]string{v1alpha1.AnnotationKeyGate: mask.FormatGate(tc.gate)}}
			before := maps.Clone(tc.holder)
			edits := SpendOpening(mr, &parent.State{Annotations: tc.holder}, at.Time)
			if diff := cmp.Diff(before, tc.holder); diff != "" {
				t.Errorf("input modified: %s", diff)
			}
			if !tc.spent {
				if len(edits) > 0 {
					t.Errorf("%s: want nothing spent, got %v", tc.reason, edits)
				}
				return
			}
			var claims []v1alpha1.Claim
			if v := edits[v1alpha1.AnnotationKeyClaims]; v == nil || json.Unmarshal([]byte(*v), &claims) != nil || len(claims) != 1 || claims[0].State != v1alpha1.ClaimUsed {
				t.Errorf("%s: the claims are %+v", tc.reason, claims)
			}
			if v, ok := edits[key]; !ok || v != nil || len(edits) != 2 {
				t.Errorf("%s: the edits are %v", tc.reason, edits)
			}
		})
	}
}

// What approves on behalf of a policy leaves no record. A gate that is lifted takes
// such an approval along, or the next gate would be opened by it a second time; one
// that stays remembers it.
func TestSpendUnrecorded(t *testing.T) {
	const key = v1alpha1.AnnotationKeyApprovePrefix + "1f2e3d4c5b6a7980"
	at := metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	content := func(mode string) string { return approval.Parse(map[string]string{key: mode}).Approvals[0].Content }
	for name, tc := range map[string]struct {
		reason string
		gate   v1alpha1.Gate
		mode   string
		spent  bool
	}{
		"Lifted":   {"it is closed to be lifted", v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonRestored, At: at, Claim: content("once")}, "once", true},
		"Ungate":   {"it is lifted at once", v1alpha1.Gate{State: v1alpha1.GateOpen, Reason: v1alpha1.GateReasonApproved, At: at, Claim: content("once")}, "once", true},
		"Stays":    {"the gate remembers", v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonExpired, At: at, Claim: content("once")}, "once", false},
		"Another":  {"it was open by another one", v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonRestored, At: at, Claim: "c1"}, "once", false},
		"Standing": {"it may be used again and again", v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonRestored, At: at, Claim: content("always")}, "always", false},
	} {
		t.Run(name, func(t *testing.T) {
			mr := &parent.State{Annotations: map[string]string{v1alpha1.AnnotationKeyGate: mask.FormatGate(tc.gate)}}
			edits := SpendOpening(mr, &parent.State{Annotations: map[string]string{key: tc.mode}}, at.Time)
			want := map[string]*string{}
			if tc.spent {
				want[key] = nil
			}
			if !maps.Equal(edits, want) {
				t.Errorf("%s: the edits are %v", tc.reason, edits)
			}
		})
	}
}
