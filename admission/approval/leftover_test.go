package approval

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestLeftover covers KR-05-40: what was given for a difference before it was carried out ends with it, and nothing else does.
func TestLeftover(t *testing.T) {
	const id, other = "1f2e3d4c5b6a7980", "0f0e0d0c0b0a0908"
	used := now.Add(-time.Minute)
	given := func(digest string, mode v1alpha1.ApprovalMode, reason string, at time.Time, state v1alpha1.ClaimState) v1alpha1.Claim {
		return v1alpha1.Claim{Content: content(v1alpha1.Approval{Digest: digest, Mode: mode, Reason: reason}, nil), State: state, Digest: digest, At: Stamp(at)}
	}
	carriedOut := given(id, v1alpha1.ApprovalOnce, "", used, v1alpha1.ClaimUsed)
	for name, tc := range map[string]struct {
		key, value string
		claims     Claims
		want       bool
	}{
		"Before": {key: "approve-" + id, value: "once: mine", want: true,
			claims: Claims{carriedOut, given(id, v1alpha1.ApprovalOnce, "mine", used.Add(-time.Second), v1alpha1.ClaimOpen)}},
		"OfTheList": {key: "approvals", value: `[{"digest":"` + id + `","mode":"once","reason":"mine"}]`, want: true,
			claims: Claims{carriedOut, given(id, v1alpha1.ApprovalOnce, "mine", used.Add(-time.Second), v1alpha1.ClaimOpen)}},
		"Since": {key: "approve-" + id, value: "once: mine",
			claims: Claims{carriedOut, given(id, v1alpha1.ApprovalOnce, "mine", used.Add(time.Second), v1alpha1.ClaimOpen)}},
		"Claimed": {key: "approve-" + id, value: "once: mine",
			claims: Claims{carriedOut, given(id, v1alpha1.ApprovalOnce, "mine", used.Add(-time.Second), v1alpha1.ClaimPending)}},
		"Lasting": {key: "approve-" + id, value: "always: mine",
			claims: Claims{carriedOut, given(id, v1alpha1.ApprovalAlways, "mine", used.Add(-time.Second), v1alpha1.ClaimOpen)}},
		"OtherDifference": {key: "approve-" + other, value: "once",
			claims: Claims{carriedOut, given(other, v1alpha1.ApprovalOnce, "", used.Add(-time.Second), v1alpha1.ClaimOpen)}},
		"NotCarriedOut": {key: "approve-" + id, value: "once: mine",
			claims: Claims{given(id, v1alpha1.ApprovalOnce, "mine", used.Add(-time.Second), v1alpha1.ClaimOpen)}},
	} {
		t.Run(name, func(t *testing.T) {
			key := v1alpha1.AnnotationPrefix + tc.key
			tc.claims[len(tc.claims)-1].Content = Parse(map[string]string{key: tc.value}).Approvals[0].Content
			edits := Leftover(map[string]string{key: tc.value, v1alpha1.AnnotationKeyClaims: tc.claims.String()}, id, now)
			if !tc.want {
				if edits != nil {
					t.Errorf("%v", edits)
				}
				return
			}
			ended := append(Claims{}, tc.claims...)
			ended[1].State, ended[1].At = v1alpha1.ClaimPruned, Stamp(now)
			claims := ended.String()
			if diff := cmp.Diff(map[string]*string{key: nil, v1alpha1.AnnotationKeyClaims: &claims}, edits); diff != "" {
				t.Error(diff)
			}
		})
	}
	votes := annotation.MustMarshal([]v1alpha1.Claim{carriedOut, {Content: "v", State: v1alpha1.ClaimOpen, Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true,
		At: Stamp(used.Add(-time.Hour)), By: []v1alpha1.Vote{{User: "anna"}}}})
	edits := Leftover(map[string]string{v1alpha1.AnnotationKeyClaims: votes}, id, now)
	if c := edits[v1alpha1.AnnotationKeyClaims]; c == nil || ParseClaims(*c).Of("v").State != v1alpha1.ClaimPruned {
		t.Errorf("votes without an annotation are left: %v", edits)
	}
}
