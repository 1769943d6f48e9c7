package gating

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	fx "github.com/kausality-io/function-kausality/admission/internal/fixture"
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
		"Open": {reason: "its approval is used", gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c1"},
			holder: holder(v1alpha1.ClaimPending, "c1"), spent: true},
		"Closed": {reason: "its use is not recorded yet",
			gate: v1alpha1.Gate{State: v1alpha1.GateClosed, At: at, Claim: "c1"}, holder: holder(v1alpha1.ClaimPending, "c1"), spent: true},
		"Several": {reason: "one of them is held elsewhere",
			gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c0,c1"}, holder: holder(v1alpha1.ClaimPending, "c1"), spent: true},
		"OfAnother": {reason: "another gate is open by it", gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c2"},
			holder: holder(v1alpha1.ClaimPending, "c1")},
		"NotByOne": {reason: "it is open by a change", gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at},
			holder: holder(v1alpha1.ClaimOpen, "")},
		"UsedAlready": {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c1"}, holder: holder(v1alpha1.ClaimUsed, "c1")},
		"NobodyHolds": {gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: "c1"}},
		"DeletionOfXR": {reason: "it is named by its content", gate: v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Claim: content},
			holder: holder(v1alpha1.ClaimOpen, ""), spent: true},
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
			if v := edits[v1alpha1.AnnotationKeyClaims]; v == nil || json.Unmarshal([]byte(*v), &claims) != nil || len(claims) != 1 ||
				claims[0].State != v1alpha1.ClaimUsed {
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
		"Lifted": {reason: "it is closed to be lifted",
			gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonRestored, At: at, Claim: content("once")}, mode: "once",
			spent: true},
		"Ungate": {reason: "it is lifted at once",
			gate: v1alpha1.Gate{State: v1alpha1.GateOpen, Reason: v1alpha1.GateReasonApproved, At: at, Claim: content("once")}, mode: "once",
			spent: true},
		"Stays": {reason: "the gate remembers",
			gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonExpired, At: at, Claim: content("once")}, mode: "once"},
		"Another": {reason: "it was open by another one",
			gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonRestored, At: at, Claim: "c1"}, mode: "once"},
		"Standing": {reason: "it may be used repeatedly",
			gate: v1alpha1.Gate{State: v1alpha1.GateClosed, Reason: v1alpha1.GateReasonRestored, At: at, Claim: content("always")}, mode: "always"},
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

// A DELETE that the API server refused after it was decided about has claimed its approval, which the gate takes over for that
// deletion and no other (KR-05-36).
func TestDeletionTakesOverItsClaim(t *testing.T) {
	mr := fx.With(fx.Instance(), fx.Synced, fx.Ready)
	holder := parent.Sum(fx.Composite(), parent.RoleComposite)
	digest := identity.DeletionDigest(holder, parent.Sum(mr, parent.RoleManaged)).ID()
	approved := fx.Annotate(v1alpha1.AnnotationKeyApprovePrefix+digest, "once")
	claimed := func(digest string, uid types.UID) fx.Mod {
		content := approval.Parse(fx.With(fx.Composite(), approved).GetAnnotations()).Approvals[0].Content
		return fx.Annotate(v1alpha1.AnnotationKeyClaims, approval.Claims{{Content: content, State: v1alpha1.ClaimPending, ID: "c1", User: "collector", Digest: digest,
			At: metav1.NewTime(fx.Noon), Child: &v1alpha1.ClaimChild{APIVersion: "nop.crossplane.io/v1alpha1", Kind: "Instance", Name: "inst", UID: uid}}}.String())
	}
	for name, tc := range map[string]struct {
		claim fx.Mod
		opens bool
	}{
		"TheSame":         {claim: claimed(digest, mr.GetUID()), opens: true},
		"OtherDifference": {claim: claimed("0123456789abcdef", mr.GetUID())},
		"OtherObject":     {claim: claimed(digest, "another")},
	} {
		t.Run(name, func(t *testing.T) {
			d := decideGate(t, gatingOf(mr, fx.With(fx.Composite(), approved, tc.claim)))
			if opens := d.Action == ActionOpen; opens != tc.opens {
				t.Fatalf("got %s (%s)", d.Action, d.Why)
			}
			if !tc.opens {
				return
			}
			claims := approval.ParseClaims(d.Claim.Value)
			if len(claims) != 1 || claims[0].Relation != v1alpha1.RelationExternal || claims[0].ID == "c1" || !HasUse(d.Gate, claims[0].ID) {
				t.Errorf("claims %s, the gate shows %s", d.Claim.Value, d.Gate.Claim)
			}
		})
	}
}
