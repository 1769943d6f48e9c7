package settling

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Child of a claim, as it is stored.
type Child struct {
	// State is nil where it does not exist.
	State *parent.State
	// Searched: of a child that was created without a name, all objects were searched for the id of the
	// claim in their hop, which the API server stores with the object.
	Searched bool
}

// ClaimOutcome returns the state that a pending claim should have, from its child; "" where it is too early. A
// claim is released only if the child, or its absence, shows that the write was not stored (KR-05-36,
// KR-13-21).
func ClaimOutcome(c v1alpha1.Claim, found Child, now time.Time) v1alpha1.ClaimState {
	if child := found.State; child != nil {
		if own := trace.Of(child.Annotations).Own(); own != nil && own.Approval != nil && own.Approval.Claim == c.ID {
			return v1alpha1.ClaimUsed
		}
	}
	switch {
	case !Due(c, now):
		return ""
	case neverLanded(c.Child, found):
		return v1alpha1.ClaimOpen
	}
	return v1alpha1.ClaimUsed
}

// neverLanded reports whether the write of a claim is known not to be stored, by what was found of its child.
func neverLanded(c *v1alpha1.ClaimChild, found Child) bool {
	switch child := found.State; {
	case c == nil, c.UID != "" && (child == nil || child.UID != c.UID):
		return false
	case c.UID == "": // a CREATE
		return child == nil && (c.Name != "" || found.Searched)
	case c.Version == "": // a DELETE
		return !child.Deleting()
	default:
		return identity.IsVersion(c.Version, child)
	}
}

// Due reports whether a claim is so old that its write is stored, if it ever is.
func Due(c v1alpha1.Claim, now time.Time) bool { return now.Sub(c.At.Time) >= claimGrace }

const (
	// claimGrace is how long a write may take to land.
	claimGrace = 30 * time.Second
	// claimReuse is how long a retry passes by the claim of its first attempt; a
	// later one claims again. Its own write may take the rest of claimGrace,
	// more than the API server gives a request after its webhooks.
	claimReuse = 10 * time.Second
)

// StaleClaims returns the time before which pending claims are stale: such a claim is claimed again by
// its own use. Otherwise a retry that passes by it at the last moment would be stored after the claim
// was released and another use had taken the approval.
func StaleClaims(now time.Time) time.Time { return now.Add(-claimReuse) }
