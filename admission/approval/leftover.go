package approval

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Leftover returns the edits that end the approvals of one use for a difference that was carried out by another one, and that were given
// before: by two users, or with two reasons. They would let it pass when it occurs the next time (KR-05-40). One that was given since may be
// for that. It returns nil where none is left. annotations is not modified.
func Leftover(annotations map[string]string, id string, now time.Time) map[string]*string {
	set, left := Parse(annotations), map[string]bool{}
	claims, used := set.Claims, set.Claims.lastUse(id)
	for _, e := range set.Approvals {
		c := claims.Of(e.Content)
		once := e.Mode == v1alpha1.ApprovalOnce && e.Digest != "" && change.Digest(e.Digest).ID() == id
		if !once || c == nil || c.State != v1alpha1.ClaimOpen || !c.At.Time.Before(used) {
			continue
		}
		next := *c
		next.State, next.At = v1alpha1.ClaimPruned, Stamp(now)
		claims, left[e.Content] = claims.put(next), true
	}
	if len(left) == 0 {
		return nil
	}
	edits := Remove(annotations, func(e Entry) bool { return left[e.Content] })
	value := claims.String()
	edits[v1alpha1.AnnotationKeyClaims] = &value
	return edits
}

// lastUse of an approval of a difference; the zero time for none.
func (c Claims) lastUse(id string) (at time.Time) {
	for _, e := range c {
		if e.State == v1alpha1.ClaimUsed && e.Digest == id && e.At.After(at) {
			at = e.At.Time
		}
	}
	return at
}
