package settling

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ClaimOutcome tells what became of a pending claim: the state it should have, given
// the child as it is now (nil where it is gone), or "" where it is too early to
// tell (spec 5, "A claim goes back only if the write can be shown not to have
// landed").
func ClaimOutcome(c v1alpha1.Claim, child *parent.State, now time.Time) v1alpha1.ClaimState {
	if child != nil {
		if own := trace.Of(child.Annotations).Own(); own != nil && own.Approval != nil && own.Approval.Claim == c.ID {
			return v1alpha1.ClaimUsed
		}
	}
	if now.Sub(c.At.Time) < claimGrace {
		return ""
	}
	created := c.Child == nil || c.Child.UID == ""
	switch {
	case child == nil && created && c.Child != nil && c.Child.Name != "":
		return v1alpha1.ClaimOpen // the CREATE never landed
	case child != nil && !created && child.UID == c.Child.UID && identity.VersionOf(child) == c.Child.Version:
		return v1alpha1.ClaimOpen // nothing changed since
	}
	return v1alpha1.ClaimUsed
}

const (
	// claimGrace is how long a write may take to land.
	claimGrace = 30 * time.Second
	// claimReuse is how long a retry passes by the claim of its first attempt; one
	// that comes later claims anew. Its own write may take the rest of claimGrace,
	// more than the API server gives a request after its webhooks.
	claimReuse = 10 * time.Second
)

// StaleClaims at a time: a pending claim from before is claimed anew by its own
// use. Otherwise a retry that passes by it at the last moment would land after
// it was given back, and somebody else had taken the approval.
func StaleClaims(now time.Time) time.Time { return now.Add(-claimReuse) }
