package admission

import (
	"maps"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ballot returns the ballot of the user who makes the write; nil where the adapter decides before the
// write, when the user is not known yet.
func (ed *editor) ballot() *approval.Ballot {
	if ed.Req.Unstored() {
		return nil
	}
	u, set, known := ed.Req.User, ed.PolicySet(), ed.World.Known
	voter := approval.Voter{Name: u.Name, Machine: u.IsMachine(), Groups: u.Groups, Extra: u.Extra}
	return &approval.Ballot{Vote: voter.Vote(ed.Manager, set.Groups(), ed.Req.Time),
		Rules: set.HasRulesFor(ed.Req.Namespace), Stored: ed.stored,
		Author: func(id string) bool {
			return slices.Contains(known(change.Digest(id).ID()).Requesters, u.Name)
		}}
}

// votedOn returns the change as ApprovalRules see it.
func votedOn(ev *evaluation) []allowance.Change {
	if !ev.PolicySet().HasRules() {
		return nil
	}
	return []allowance.Change{approve.ChangeOf(ev.ctx, ev.Facts)}
}

// authors returns the authors of the change: the initiators of the parent's intents since the change was
// first held, and the users who made what causes it (KR-14-05).
func (ev *evaluation) authors() allowance.Authors {
	since := ev.view().intent.Generation
	if h := ev.Req.Held; h != nil {
		since = min(since, h.Since.Generation)
	}
	out := allowance.Authors{Names: trace.Authors(ev.parent().Annotations, since)}
	if origin := ev.view().trace.Origin(); origin != nil { // of an intent that is not recorded yet
		out.Add(origin.User)
	}
	found := ev.caused()
	graph := ev.KindOf(ev.parent()).Graph != "" // also where it changed the child before: kro may have carried out the revision before, then
	if graph && !slices.ContainsFunc(found.list, func(c v1alpha1.HopCause) bool { return c.Kind == v1alpha1.CauseGraph }) {
		also := authored(ev, cause(v1alpha1.CauseGraph, ev.build().Graph.Name))
		found = causes{slices.Concat(found.list, also.list), slices.Concat(found.unread, also.unread)}
	}
	if out.Unread = found.unread; ev.build().Unread && !ev.needsApproval() {
		out.Unread = append(slices.Clip(out.Unread), "the revisions that make it")
	}
	for _, c := range found.list {
		switch {
		case c.Author != "" || c.Kind.IsRevision():
			out.Add(c.Author)
		case c.Kind == v1alpha1.CauseUser:
			out.Add(c.Name)
		}
	}
	return out
}

// checkVotes refuses approvals whose votes the object has no room for, and those of an id that two differences have.
func (ed *editor) checkVotes() *outcome.Refusal {
	b := ed.ballot()
	if b == nil {
		return nil
	}
	// The votes that count are the stored ones.
	annotations := maps.Clone(ed.incoming)
	annotations[v1alpha1.AnnotationKeyClaims] = ed.stored[v1alpha1.AnnotationKeyClaims]
	why, next := b.Refused(annotations, approve.Known(ed.ctx, ed.evaluation.Facts))
	if why == "" {
		return nil
	}
	return &outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonInvalidAnnotation, Why: why, Next: next}
}
