package admission

import (
	"github.com/kausality-io/function-kausality/admission/approve"

	"github.com/kausality-io/function-kausality/admission/outcome"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// inWindow is the verdict on a change that needs no approval: v while the windows of all ApprovalRules that apply to such
// changes are open, or where the glass was broken for it; a refusal otherwise (KR-14-21).
func (ev *evaluation) inWindow(a v1alpha1.AppliesTo, v outcome.Verdict) outcome.Verdict {
	if !ev.PolicySet().HasRulesOf(a) {
		return v
	}
	rules := approve.RulesFor(ev.Facts, approve.ChangesInWindow(ev.ctx, ev.Facts, a))
	closed := rules.Closed(nil, ev.Req.Time)
	if closed == "" {
		return v
	}
	holder, set, q := ev.glassBox(rules)
	if m, ok := set.Approved(q); ok {
		return ev.byBreakGlass(v, m, set)
	}
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonWindowClosed, Why: closed, Next: afterWindow}
	if who := rules.Alone(); who != "" && !holder.Unguarded && !(ev.view() == nil && ev.Req.Operation == Create) {
		r.Next += " In an emergency, for " + who + ": " + identity.BreakGlassCommand(holder.State.Ref, holder.Kind, ev.class.id)
	}
	if ev.Mode == v1alpha1.ModeLog {
		ev.warnings.Add("the change passes because the mode is log: " + outcome.Message(ev.Facts, r))
		return outcome.Allow(v.Class, outcome.ReasonWindowClosed)
	}
	return outcome.Refuse(ev.Facts, v.Class, r)
}

// afterWindow is what becomes of a change that needs no approval.
const afterWindow = "It needs no approval, and passes when it is tried again while the window is open."

// glassBox is where a vote lets the change pass alone: the parent or, without one, the object itself as it is stored: a new
// object has what its author wrote, and no vote. An approval that breaks no glass does not (KR-14-22).
func (ev *evaluation) glassBox(rules allowance.Rules) (identity.Holder, approval.Set, approval.Query) {
	holder := identity.Holder{Kind: ev.Kind}
	var set approval.Set
	if view := ev.view(); view != nil {
		holder.State, holder.Kind, holder.Unguarded = view.state, ev.KindOf(view.state), !view.guarded
		set = view.set
	} else {
		holder.State = parent.Sum(ev.Req.Stored(), ev.Kind.Role)
		ev.class.id = ev.Req.DifferenceID(holder.State, ev.Changes)
		if ev.Req.Operation != Create {
			set = approval.ParseAt(holder.State.Annotations, ev.Req.Time)
		}
	}
	use := approve.Use(ev.Facts, ev.class.id)
	q := approval.Query{APIVersion: use.Child.APIVersion, Kind: use.Child.Kind, Name: use.Child.Name, Resource: ev.Req.Resource(),
		Relation: v1alpha1.RelationControllerChild, Digests: []string{ev.class.id}, Use: use,
		Lacks: func(votes []v1alpha1.Vote) (string, bool) {
			lacking := rules.Closed(votes, ev.Req.Time)
			return lacking, lacking != ""
		}}
	if ev.view() != nil {
		q.Intent = ev.approvedSince()
	} else {
		intent, _ := trace.Intent(holder.State)
		q.Intent = intent.Generation
	}
	return holder, set, q
}

// byBreakGlass is the verdict on a change that passes outside of the windows. On the object itself nothing is claimed: its
// change is an intent, which ends the approvals from before.
func (ev *evaluation) byBreakGlass(v outcome.Verdict, m approval.Match, set approval.Set) outcome.Verdict {
	out := outcome.Allow(v.Class, outcome.ReasonApproved)
	out.Approval = &v1alpha1.HopApproval{Content: m.Entry.Content, Mode: m.Entry.Mode, Digest: ev.class.id, Reason: approve.Bounded(m.Entry.Reason),
		By: approve.Approvers(m.By)}
	switch {
	case ev.view() == nil:
	case m.NeedsClaim():
		out.Resolution = outcome.ResolutionApproved
		out.Claim = approve.Claim(ev.Facts, ev.parent(), set, m.Entry, approve.Use(ev.Facts, ev.class.id))
		out.Approval.Claim = out.Claim.ID
	case m.Claimed != nil:
		out.Resolution = outcome.ResolutionApproved
		out.Approval.Claim = m.Claimed.ID
	}
	return out
}
