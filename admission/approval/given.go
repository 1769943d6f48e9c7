package approval

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Approval returns an approval that lets a difference with an id pass, in the form in which the hop of a change records it.
func (m Match) Approval(id string) *v1alpha1.HopApproval {
	return &v1alpha1.HopApproval{Content: m.Entry.Content, Mode: m.Entry.Mode, Digest: id,
		Reason: annotation.Cut(m.Entry.Reason, v1alpha1.MaxCauseName), By: approvers(m.By)}
}

// UsedFor returns the approval of a difference that was used since a time, in the form in which the hop of a change records it
// (KR-14-63); nil for none. One that is claimed for a change which is not known to be stored yet counts where pending is true.
func (c Claims) UsedFor(id string, since time.Time, pending bool) *v1alpha1.HopApproval {
	for _, e := range slices.Backward(c) {
		used := e.State == v1alpha1.ClaimUsed || pending && e.State == v1alpha1.ClaimPending
		if used && e.Digest == id && !e.At.Time.Before(since) {
			return &v1alpha1.HopApproval{Claim: e.ID, Content: e.Content, Mode: cmp.Or(e.Mode, v1alpha1.ApprovalOnce), Digest: id, Reason: e.Reason,
				By: approvers(Approvers(e))}
		}
	}
	return nil
}

// Approvers returns the votes by which the change passed that a claim was taken for; nil where who approved is unknown.
func Approvers(c v1alpha1.Claim) []v1alpha1.Vote {
	if c.Counted != nil {
		return c.Counted
	}
	return c.By
}

// BrokenGlass returns the vote of an approval by which it let a change pass alone; nil where no vote did, and for no approval (KR-14-43).
func BrokenGlass(a *v1alpha1.HopApproval) *v1alpha1.Vote {
	if a == nil {
		return nil
	}
	for _, v := range slices.Backward(a.By) {
		if v.BreakGlass != "" {
			return &v
		}
	}
	return nil
}

// approvers returns votes in the form of a trace (KR-14-10): without the groups, which are for the rules alone, and with the reasons where
// they differ.
func approvers(votes []v1alpha1.Vote) []v1alpha1.Vote {
	out := slices.Clone(votes)
	differ := slices.ContainsFunc(votes, func(v v1alpha1.Vote) bool { return v.Reason != votes[0].Reason })
	for i := range out {
		if out[i].Groups = nil; !differ {
			out[i].Reason = ""
		}
	}
	return out
}

// ByText returns the users who approved as the end of a clause, with for whom they acted, and why they approved alone; the policy where
// one approved, and "" where neither is known, and for no approval.
func ByText(a *v1alpha1.HopApproval) string {
	switch {
	case a == nil:
		return ""
	case a.Policy != "":
		return ", by " + a.Policy
	}
	return VotesText(a.By)
}

// VotesText returns the users of votes as the end of a clause; "" for none.
func VotesText(votes []v1alpha1.Vote) string {
	names := make([]string, 0, len(votes))
	for _, v := range votes {
		name := v.User
		if v.OnBehalfOf != "" {
			name += " on behalf of " + v.OnBehalfOf
		}
		if v.BreakGlass != "" {
			name += " (break glass: " + v.BreakGlass + ")"
		}
		if v.Reason != "" {
			name += " (because: " + v.Reason + ")"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return ", by " + strings.Join(names, " and ")
}
