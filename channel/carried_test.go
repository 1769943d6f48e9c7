package channel

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// TestUnlessCarried covers KR-12-34: what an approval has let through since it was last seen is not approved for the next time.
func TestUnlessCarried(t *testing.T) {
	const id = "1f2e3d4c5b6a7980"
	seen := metav1.NewTime(time.Date(2026, 1, 5, 9, 30, 0, 0, time.UTC))
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(seen.Add(d)) }
	for name, tc := range map[string]struct {
		claim    v1alpha1.Claim
		relation v1alpha1.Relation
		unseen   bool
		approves bool
	}{
		"Used":            {claim: v1alpha1.Claim{State: v1alpha1.ClaimUsed, Digest: id, At: at(time.Second)}},
		"UsedAtOnce":      {claim: v1alpha1.Claim{State: v1alpha1.ClaimUsed, Digest: id, At: seen}},
		"Landing":         {claim: v1alpha1.Claim{State: v1alpha1.ClaimPending, Digest: id, At: at(time.Second)}},
		"SeenSince":       {claim: v1alpha1.Claim{State: v1alpha1.ClaimUsed, Digest: id, At: at(-time.Second)}, approves: true},
		"Open":            {claim: v1alpha1.Claim{State: v1alpha1.ClaimOpen, Digest: id, At: at(time.Second)}, approves: true},
		"OtherDifference": {claim: v1alpha1.Claim{State: v1alpha1.ClaimUsed, Digest: "0f0e0d0c0b0a0908", At: at(time.Second)}, approves: true},
		"OpenGate": {claim: v1alpha1.Claim{State: v1alpha1.ClaimPending, Digest: id, At: at(time.Second), Relation: v1alpha1.RelationExternal},
			relation: v1alpha1.RelationExternal, approves: true},
		"HeldByTheFunction": {claim: v1alpha1.Claim{State: v1alpha1.ClaimUsed, Digest: id, At: at(time.Second)}, unseen: true, approves: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: id, Relation: tc.relation}}
			if !tc.unseen {
				d.Status.LastSeen = &seen
			}
			key := annotate.ApproveKey(id)
			annotations := map[string]string{v1alpha1.AnnotationKeyClaims: annotation.MustMarshal([]v1alpha1.Claim{tc.claim})}
			got, err := UnlessCarried(d, key, annotate.Approve(id, v1alpha1.ApprovalOnce))(annotations)
			if err != nil || (got != nil) != tc.approves {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
