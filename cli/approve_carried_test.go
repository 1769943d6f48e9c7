package cli

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestApprovedBy covers KR-12-35: what a user may withdraw is what that user approved and was not used.
func TestApprovedBy(t *testing.T) {
	const a, b = "1f2e3d4c5b6a7980", "0f0e0d0c0b0a0908"
	claim := func(id string, state v1alpha1.ClaimState, users ...string) v1alpha1.Claim {
		c := v1alpha1.Claim{Content: id + string(state), State: state, Digest: id, Mode: v1alpha1.ApprovalOnce, Votes: true}
		for _, u := range users {
			c.By = append(c.By, v1alpha1.Vote{User: u})
		}
		return c
	}
	annotations := map[string]string{v1alpha1.AnnotationKeyClaims: annotation.MustMarshal([]v1alpha1.Claim{
		claim(a, v1alpha1.ClaimOpen, "anna", "hans"), claim(a, v1alpha1.ClaimUsed, "eve"), claim(b, v1alpha1.ClaimOpen, "anna"),
	})}
	for user, want := range map[string][]string{"anna": {a, b}, "hans": {a}, "eve": nil, "bob": nil} {
		if got := approvedBy(annotations, user); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", user, got, want)
		}
	}
}

// TestLastApproved covers KR-12-34: where nothing waits any more, the error names the last change and who approved it.
func TestLastApproved(t *testing.T) {
	resolved := func(name string, minutes int, by string) v1alpha1.Drift {
		d := v1alpha1.Drift{}
		seen := metav1.NewTime(time.Date(2026, 1, 5, 9, minutes, 0, 0, time.UTC))
		d.Name, d.Status.Phase, d.Status.LastSeen = name, v1alpha1.DriftResolved, &seen
		if by != "" {
			d.Status.Approval = &v1alpha1.HopApproval{By: []v1alpha1.Vote{{User: by}}}
		}
		return d
	}
	all := []v1alpha1.Drift{resolved("first", 1, "anna"), resolved("last", 3, "hans"), resolved("gone", 4, "")}
	if got, want := lastApproved(all), "the last change, last, was approved, by hans"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := lastApproved(all[2:]); got != "" {
		t.Errorf("%q", got)
	}
}
