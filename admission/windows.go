package admission

import (
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// inWindow returns the verdict on a change that needs no approval: v while the windows of all ApprovalRules that apply to
// such changes are open, or where the glass was broken for it; a refusal otherwise (KR-14-21).
func inWindow(ev *evaluation, a v1alpha1.AppliesTo, v *outcome.Verdict) *outcome.Verdict {
	if !ev.PolicySet().HasRulesOf(a) {
		return v
	}
	rules := ev.PolicySet().MatchingAny(approve.ChangesInWindow(ev.ctx, ev.Facts, a))
	closed := rules.Closed(nil, ev.Req.Time)
	if closed == "" {
		return v
	}
	holder, set, q := glassBox(ev, rules)
	if m, ok := set.Approved(q); ok {
		if ev.view() == nil {
			return approve.ByOwn(v.Class, m, ev.class.digest.ID())
		}
		out := approve.By(ev.Facts, v.Class, ev.parent(), set, m, q.Use)
		if out.Approval.Claim == "" { // a lasting one, which changes that need no approval do not use
			out.Resolution = ""
		}
		return out
	}
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonWindowClosed, Why: closed, Next: afterWindow}
	if who := rules.Alone(); who != "" && !holder.Unguarded && !(ev.view() == nil && ev.Req.Operation == Create) {
		r.Next += " In an emergency, for " + who + ": " + identity.BreakGlassCommand(holder.State.Ref, holder.Kind, ev.class.digest.ID())
	}
	if ev.Mode == v1alpha1.ModeLog {
		ev.warnings.Add("the change passes because the mode is log: " + outcome.Message(ev.Facts, r))
		return outcome.Allow(v.Class, outcome.ReasonWindowClosed)
	}
	return outcome.Refuse(ev.Facts, v.Class, r)
}

// afterWindow is what becomes of a change that needs no approval.
const afterWindow = "It needs no approval, and passes when it is tried again while the window is open."

// glassBox returns the object on which a vote lets the change pass alone: the parent or, without one, the object itself as
// it is stored. A new object has what its author wrote, and no vote. An approval that breaks no glass does not (KR-14-22).
func glassBox(ev *evaluation, rules allowance.Rules) (identity.Holder, approval.Set, approval.Query) {
	holder := identity.Holder{Kind: ev.Kind}
	var set approval.Set
	if view := ev.view(); view != nil {
		holder.State, holder.Kind, holder.Unguarded = view.state, ev.KindOf(view.state), !view.guarded
		set = view.set
	} else {
		holder.State = parent.Sum(ev.Req.Stored(), ev.Kind.Role)
		ev.class.digest = ev.DifferenceDigest(holder.State, ev.Changes)
		if ev.Req.Operation != Create {
			set = approval.ParseAt(holder.State.Annotations, ev.Req.Time)
		}
	}
	intent, _ := trace.Intent(holder.State)
	since := intent.Generation
	if ev.view() != nil {
		since = ev.approvedSince()
	}
	return holder, set, *approve.Query(ev.Facts, ev.class.digest, since, func(votes []v1alpha1.Vote) (string, bool) {
		lacking := rules.Closed(votes, ev.Req.Time)
		return lacking, lacking != ""
	}, func(votes []v1alpha1.Vote) []v1alpha1.Vote { return rules.BrokeGlass(votes, ev.Req.Time) })
}
