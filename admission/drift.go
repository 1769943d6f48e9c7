package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// maxUnevaluated is the number of rules that a message names because they could
// not be evaluated.
const maxUnevaluated = 3

// query returns the query that looks for an approval of this change among those of the parent.
func (ev *evaluation) query() approval.Query {
	return **ev.question.Get(func() *approval.Query {
		return approve.Query(ev.Facts, ev.class.digest, ev.approvedSince(), ev.poll().Lacks(), ev.poll().Counted())
	})
}

// poll returns what ApprovalRules require for the change; nil where none matches.
func (ev *evaluation) poll() *approve.Poll {
	return *ev.polled.Get(func() *approve.Poll { return approve.PollOf(ev.Facts, votedOn(ev), ev.authors) })
}

// refuseRejected refuses drift that a rejection on the parent matches (KR-05-09).
func refuseRejected(ev *evaluation) (*outcome.Verdict, error) {
	r, ok := ev.view().set.Rejected(ev.query())
	if !ok {
		return nil, nil
	}
	v := ev.refuse(outcome.Rejected(ev.parent().Ref, ev.KindOf(ev.parent()), r, ev.Req.Ref(), ev.Kind))
	v.Resolution = outcome.ResolutionRejected
	return v, nil
}

// allowApproved allows drift that an approval on the parent matches. An open gate for
// Delete approves the deletion of its managed resource (KR-05-11).
func allowApproved(ev *evaluation) (*outcome.Verdict, error) {
	if ev.deletion.Approved || ev.Req.Operation == Delete && ev.Kind.ManagementPolicies &&
		gating.IsOpenFor(ev.Req.OldObject.GetAnnotations(), v1alpha1.VerbDelete) {
		v := ev.allow(outcome.ReasonApproved)
		v.Resolution = outcome.ResolutionApproved
		return v, nil
	}
	m, ok := ev.view().set.Approved(ev.query())
	if !ok {
		return nil, nil
	}
	return approve.By(ev.Facts, ev.effectiveClass(), ev.parent(), ev.view().set, m, ev.query().Use), nil
}

// decideDrift reports drift, and refuses or logs it (KR-05-13, KR-05-28, KR-06-24).
func decideDrift(ev *evaluation) (*outcome.Verdict, error) {
	r := driftRefusal(ev)
	report := driftReport(ev, r)
	v := ev.refuse(r)
	switch v.Resolution = outcome.ResolutionRefused; {
	case ev.Mode == v1alpha1.ModeLog || ev.overdue():
		ev.warnings.Add("drift: " + v.Message)
		v = ev.allow(outcome.ReasonDriftLogged)
		v.Resolution, v.Why = outcome.ResolutionLogged, r.Why
	case report.Snoozed:
		v.Resolution = outcome.ResolutionSnoozed
	}
	v.Report, v.Suggestion, v.Needs, v.Lacks = report, r.Suggestion, ev.poll().Needs(report.Votes), report.Lacks
	v.Causes = ev.attribution()
	return v, nil
}

// driftRefusal returns the refusal of a drift, with the command that approves it.
func driftRefusal(ev *evaluation) outcome.Refusal {
	p := identity.Describe(ev.parent().Ref)
	holder := identity.Holder{State: ev.parent(), Kind: ev.KindOf(ev.parent()), Unguarded: !ev.view().guarded}
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonDrift, Suggestion: holder.ApproveCommand(ev.class.digest.ID())}
	intent, open, rev, end := strconv.FormatInt(ev.view().intent.Generation, 10), "", ev.parent().CompositionRevision, ""
	if rev != "" {
		open, end = " (composition revision ", ")"
	} else if rev = ev.graph(); rev != "" {
		open, end = " (", ")"
	}
	switch {
	case ev.needsApproval():
		r.Why = fmt.Sprintf("it is not by the controller of %s, and policy %s requires approval of changes by other users", p, ev.Settings.Policy)
	case ev.half.held:
		r.Why = "it was held before the last intent of " + p + " (generation " + intent + "), which does not change it" + open + rev + end
	default:
		r.Why = "it is an unrequested change: the spec of " + p + " has not changed since it settled at generation " + intent + open + rev + end
	}
	if !ev.needsApproval() {
		r.Why += facts.GraphLines(ev.ctx, ev.Facts, ev.parent(), nil)
	}
	if lacking := ev.view().set.Lacking(ev.query()); lacking != "" {
		r.Why += "; " + lacking
	} else if e, ok := ev.view().set.Spent(ev.query()); ok {
		r.Why += fmt.Sprintf("; the approval in annotation %s %s", e.Key, ev.view().set.WhySpent(e))
	}
	switch {
	case len(ev.narrowing().missing) > 0:
		r = allowanceMissing(ev, r)
	case ev.overdue():
		r.Why += "; it passes since " + p + " still initializes by initializing.when of AllowancePolicy " + policyNames(ev)
	}
	for _, w := range ev.unevaluated[:min(len(ev.unevaluated), maxUnevaluated)] {
		r.Why += "; " + w
	}
	r.Next = "To approve exactly this change: " + r.Suggestion
	if ev.view().set.Waits(ev.query()) {
		r.Next = outcome.AfterOpening
	}
	if holder.Unguarded {
		r.Next = "Approvals on " + p + " do not count, since Kausality does not guard it: " +
			"guard it by a Kausality policy, or allow the change by an ApprovalPolicy or a ClusterApprovalPolicy." + unseenIntent(ev)
	}
	return r
}

// unseenIntent returns how to make known that the parent, which no request shows, was changed since its last recorded intent: its generation
// is a later one, and managedFields may show no later write within the same second (KR-13-75). It is "" where that cannot be.
func unseenIntent(ev *evaluation) string {
	p, intent := ev.parent(), ev.view().intent
	if !intent.Unattributed || p.Generation <= intent.Generation {
		return ""
	}
	return fmt.Sprintf(" If its spec was changed on purpose since generation %d, this makes that known: kubectl annotate %s %s-",
		intent.Generation, identity.Target(p.Ref, ev.KindOf(p)), v1alpha1.AnnotationKeyTrace)
}

// driftReport returns the report of a drift that is refused or logged.
func driftReport(ev *evaluation, r outcome.Refusal) *Report {
	out := outcome.ReportOf(ev.Facts, v1alpha1.DriftSpec{
		ID: ev.class.digest.ID(), Digest: ev.class.digest.Whole(), Relation: v1alpha1.RelationControllerChild, Intent: ev.view().intent.Generation,
		Cause: ev.cause(), Causes: ev.attribution(), SuggestedApproval: r.Suggestion,
	}, ev.parent(), ev.view().set)
	out.Votes, out.Lacks = ev.view().set.Tally(ev.query())
	return out
}

// graph describes the revision of a graph of kro that is a cause, with its author (KR-18-05); "" for none.
func (ev *evaluation) graph() string {
	if ev.KindOf(ev.parent()).Graph == "" {
		return ""
	}
	causes := ev.caused().list
	i := slices.IndexFunc(causes, func(c v1alpha1.HopCause) bool { return c.Kind == v1alpha1.CauseGraph })
	if i < 0 {
		return ""
	}
	text := ev.build().Graph.String()
	if c := causes[i]; c.Author != "" {
		if text += ", changed by " + c.Author; c.Claimed {
			text += " (a claim)"
		}
	}
	return text
}

// cause describes the cause of a drift in text: the composition or graph revision in use, or the user (KR-10-03),
// with the build of its controller where that is a cause (KR-10-13).
func (ev *evaluation) cause() string {
	if ev.needsApproval() {
		return "user " + ev.Req.User.Name
	}
	var images, edits []string
	for _, c := range ev.attribution() {
		switch c.Kind {
		case v1alpha1.CauseImage:
			images = append(images, c.Name)
		case v1alpha1.CauseEdit:
			edits = append(edits, "an edit by "+c.Name)
		}
	}
	text := cmp.Or(ev.graph(), outcome.CauseOf(ev.Facts, ev.parent()))
	if len(edits) > 0 {
		text += ", which reverts " + strings.Join(edits, " and ")
	}
	if len(images) == 0 {
		return text
	}
	if by := cmp.Or(ev.Req.User.Name, ev.Req.Controller); ev.parent().CompositionRevision != "" && by != "" {
		text += ", and controller " + by
	}
	return text + " running " + strings.Join(images, ", ")
}
