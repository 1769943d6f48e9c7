package approve

import (
	"cmp"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Cast is what became of the approval of a user for a reported difference (KR-14-44).
type Cast struct {
	// Rejected is the rejection that forbids the difference, whatever approvals exist; nil for none.
	Rejected *v1alpha1.Rejection
	// Frozen: all changes below the object are refused.
	Frozen bool
	// Ruled: ApprovalRules match the difference. The rest is empty where none does.
	Ruled bool
	// Stored: the webhook has stored the vote of the user. Voted: it had one of that user before.
	Stored, Voted bool
	// Discounted is a clause about the reason why the vote does not count; empty where it does.
	Discounted string
	// NoGlass: the user was to break the glass, and no rule names that user for it.
	NoGlass bool
	// Lacks is what the votes lack, as a clause; empty for nothing. Waits: nothing but a window that is open.
	Lacks string
	Waits bool
}

// Counts reports whether the approval has, or will have, an effect.
func (c *Cast) Counts() bool {
	return c.Rejected == nil && (!c.Ruled || c.Stored && c.Discounted == "")
}

// CastOf returns what became of the approval of a user for the difference that a Drift shows: by the annotations of the holder of its approvals before and
// after the user wrote it, and by the rules that match it for the given authors.
func CastOf(d *v1alpha1.DriftSpec, user string, before, after map[string]string, rules allowance.Rules, authors allowance.Authors, now time.Time) Cast {
	digest := change.Digest(cmp.Or(d.Digest, d.ID))
	set, own := approval.ParseAt(after, now), func(v v1alpha1.Vote) bool { return v.User == user }
	q := approval.Query{APIVersion: d.Child.APIVersion, Kind: d.Child.Kind, Name: d.Child.Name, Resource: d.Child.Resource, Relation: d.Relation,
		Digests: []change.Digest{digest}}
	if hop := trace.Of(after).Own(); hop != nil {
		q.Intent = hop.Generation
	}
	out := Cast{Frozen: set.Freeze != nil, Ruled: len(rules) > 0}
	if r, is := set.Rejected(q); is {
		out.Rejected = &r
	}
	if !out.Ruled {
		return out
	}
	votes := set.VotesFor(digest)
	out.Voted = slices.ContainsFunc(approval.ParseAt(before, now).VotesFor(digest), own)
	out.Lacks, out.Waits = rules.Lacks(votes, authors, now)
	if i := slices.IndexFunc(votes, own); i >= 0 {
		out.Stored = true
		out.Discounted = rules.Discounted(votes[i], authors, now)
		out.NoGlass = votes[i].BreakGlass != "" && len(rules.BrokeGlass(votes[i:i+1], now)) == 0
	}
	return out
}
