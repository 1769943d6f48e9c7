package admission

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/admission/facts"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Resolutions of a drift, for audit and metrics.
const (
	ResolutionApproved = "approved"
	ResolutionUpgraded = "upgraded"
	ResolutionRejected = "rejected"
	ResolutionRefused  = "refused"
	ResolutionLogged   = "logged"
	ResolutionSnoozed  = "snoozed"
)

// maxUnevaluated is the number of rules that a message names because they could
// not be evaluated.
const maxUnevaluated = 3

// query of the parent's approvals about this change.
func (ev *evaluation) query() approval.Query {
	return *ev.question.Get(func() approval.Query {
		use := zUse(ev.Facts, ev.class.id)
		return approval.Query{
			APIVersion: use.Child.APIVersion, Kind: use.Child.Kind, Name: use.Child.Name, Resource: ev.Req.Resource(),
			Relation: v1alpha1.RelationControllerChild, Digests: []string{ev.class.id}, Intent: ev.approvedSince(),
			Use: use, Lacks: ev.poll().lacks(),
		}
	})
}

// poll about the change.
func (ev *evaluation) poll() *poll {
	return *ev.polled.Get(func() *poll { return pollOf(ev.Facts, ev.voted(), ev.authors) })
}

// zUse of an approval by this request.
func zUse(f *facts.Facts, digest string) approval.Use {
	ref := f.Req.Ref()
	apiVersion, kind := ref.ToAPIVersionAndKind()
	child := v1alpha1.ClaimChild{APIVersion: apiVersion, Kind: kind, Namespace: ref.Namespace, Name: ref.Name}
	if old := f.Req.OldObject; old != nil {
		child.UID, child.Version = old.GetUID(), identity.Version(old)
	}
	return approval.Use{Child: child, Digest: digest, User: f.ID(), Claim: f.Req.Claim(), Stale: settling.StaleClaims(f.Req.Time)}
}

// rejected refuses drift that a rejection on the parent matches (KR-05-09).
func (ev *evaluation) rejected() (verdict, error) {
	r, ok := ev.view().set.Rejected(ev.query())
	if !ok {
		return verdict{}, nil
	}
	v := ev.refuse(rejection(ev.parent().Ref, ev.KindOf(ev.parent()), r))
	v.Resolution = ResolutionRejected
	return v, nil
}

// approved allows drift that an approval on the parent matches. An open gate for
// Delete approves the deletion of its managed resource (KR-05-11).
func (ev *evaluation) approved() (verdict, error) {
	if ev.deletion.approved || ev.Req.Operation == Delete && ev.Kind.ManagementPolicies &&
		gating.IsOpenFor(ev.Req.OldObject.GetAnnotations(), v1alpha1.VerbDelete) {
		v := ev.allow(ReasonApproved)
		v.Resolution = ResolutionApproved
		return v, nil
	}
	m, ok := ev.view().set.Approved(ev.query())
	if !ok {
		return verdict{}, nil
	}
	v := ev.allow(ReasonApproved)
	v.Resolution = ResolutionApproved
	v.approval = &v1alpha1.HopApproval{Content: m.Entry.Content, Mode: m.Entry.Mode, Digest: ev.class.id, Reason: bounded(m.Entry.Reason),
		By: approvers(m.By)}
	switch {
	case m.NeedsClaim():
		v.Claim = zClaim(ev.Facts, ev.parent(), ev.view().set, m.Entry, ev.query().Use)
		v.approval.Claim = v.Claim.ID
	case m.Claimed != nil:
		v.approval.Claim = m.Claimed.ID
	}
	return v, nil
}

// zClaim an approval on its holder.
func zClaim(f *facts.Facts, holder *parent.State, set approval.Set, e approval.Entry, u approval.Use) *identity.ClaimEffect {
	return identity.Claim(holder, set.Claims, e, u, f.Req.Time)
}

// drift is reported, and refused or logged (KR-05-13, KR-05-28, KR-06-24).
func (ev *evaluation) drift() (verdict, error) {
	r := ev.driftRefusal()
	report := ev.driftReport(r)
	v := ev.refuse(r)
	switch v.Resolution = ResolutionRefused; {
	case ev.Mode == v1alpha1.ModeLog || ev.overdue():
		ev.warnings.add("drift: " + v.Message)
		v = ev.allow(ReasonDriftLogged)
		v.Resolution, v.Why = ResolutionLogged, r.why
	case report.Snoozed:
		v.Resolution = ResolutionSnoozed
	}
	v.Report, v.Suggestion, v.Needs = report, r.suggestion, ev.poll().needs(report.Votes)
	return v, nil
}

// driftRefusal is the refusal of a drift, with the command that approves it.
func (ev *evaluation) driftRefusal() refusal {
	p := identity.Describe(ev.parent().Ref)
	holder := identity.Holder{State: ev.parent(), Kind: ev.KindOf(ev.parent()), Unguarded: !ev.view().guarded}
	r := refusal{code: 403, reason: ReasonDrift, suggestion: holder.ApproveCommand(ev.class.id)}
	intent, open, rev, end := strconv.FormatInt(ev.view().intent.Generation, 10), "", ev.parent().CompositionRevision, ""
	if rev != "" {
		open, end = " (composition revision ", ")"
	}
	switch {
	case ev.needsApproval():
		r.why = fmt.Sprintf("it is not by the controller of %s, and policy %s requires approval of changes by other users", p, ev.Settings.Policy)
	case ev.half.held:
		r.why = "it was held before the last intent of " + p + " (generation " + intent + "), which does not change it" + open + rev + end
	default:
		r.why = "it is an unrequested change: the spec of " + p + " has not changed since it settled at generation " + intent + open + rev + end
	}
	if lacking := ev.view().set.Lacking(ev.query()); lacking != "" {
		r.why += "; " + lacking
	} else if e, ok := ev.view().set.Spent(ev.query()); ok {
		r.why += fmt.Sprintf("; the approval in annotation %s is used up or out of date", e.Key)
	}
	switch {
	case len(ev.narrowing().missing) > 0:
		r = ev.allowanceMissing(r)
	case ev.overdue():
		r.why += "; it passes since " + p + " still initializes by initializing.when of AllowancePolicy " + ev.policyNames()
	}
	for _, w := range ev.unevaluated[:min(len(ev.unevaluated), maxUnevaluated)] {
		r.why += "; " + w
	}
	r.next = "To approve exactly this change: " + r.suggestion
	if ev.view().set.Waits(ev.query()) {
		r.next = afterOpening
	}
	if holder.Unguarded {
		r.next = "Approvals on " + p + " do not count, since Kausality does not guard it: " +
			"guard it by a Kausality policy, or allow the change by an ApprovalPolicy or a ClusterApprovalPolicy."
	}
	return r
}

// driftReport of a refused or logged drift.
func (ev *evaluation) driftReport(r refusal) *Report {
	out := zReport(ev.Facts, v1alpha1.DriftSpec{
		ID: ev.class.id, Relation: v1alpha1.RelationControllerChild, Intent: ev.view().intent.Generation,
		Cause: ev.cause(), Causes: ev.causes(), SuggestedApproval: r.suggestion,
	}, ev.parent(), ev.view().set)
	out.Votes, out.Lacks = ev.view().set.Tally(ev.query())
	return out
}

// zReport about this request on a parent: spec holds what the caller knows.
func zReport(f *facts.Facts, spec v1alpha1.DriftSpec, p *parent.State, set approval.Set) *Report {
	out := &Report{ParentRef: p.Ref, Parent: p, Snoozed: set.Snoozed(f.Req.Time)}
	if f.Options.Unreported {
		return out
	}
	ref := f.Req.Ref()
	spec.Parent = identity.ObjectReference(p.Ref, p.Generation, "")
	spec.Child = identity.ObjectReference(ref, f.Req.Current().GetGeneration(), f.Req.Resource())
	out.Recurs = set.UsedFor(spec.ID)
	spec.Operation, spec.User = string(f.Req.Operation), f.Req.User.Name
	if f.Req.Operation == Update { // a creation or deletion is one change
		spec.Difference = change.Fields(f.Changes, identity.MaxReportFields)
	}
	out.Drift = spec
	return out
}

// afterOpening is what becomes of a change that is approved, and lacks nothing but a window that is open.
const afterOpening = "It is approved, and passes when it is tried again while the window is open."

// cause of a drift: the composition revision in use, or the user (KR-10-03), with the build of its controller where that
// is a cause (KR-10-13).
func (ev *evaluation) cause() string {
	if ev.needsApproval() {
		return "user " + ev.Req.User.Name
	}
	var images []string
	for _, c := range ev.causes() {
		if c.Kind == v1alpha1.CauseImage {
			images = append(images, c.Name)
		}
	}
	text := zCauseOf(ev.Facts, ev.parent())
	if len(images) > 0 {
		text += " running " + strings.Join(images, ", ")
	}
	return text
}

// zCauseOf a change by the controller of a parent.
func zCauseOf(f *facts.Facts, p *parent.State) string {
	switch {
	case p.CompositionRevision != "":
		return "composition revision " + p.CompositionRevision
	case f.Req.User.Name != "":
		return "controller " + f.Req.User.Name
	}
	return "the controller of " + identity.Describe(p.Ref)
}
