package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/approve"

	"github.com/kausality-io/function-kausality/admission/actor"

	"github.com/kausality-io/function-kausality/admission/outcome"

	"github.com/kausality-io/function-kausality/admission/facts"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// deletion of what an object represents outside the cluster, as far as it is decided without the rest
// of the table. The zero deletion is none.
type deletion struct {
	// id that approves it; empty where nothing would be destroyed or orphaned.
	id string
	// approved: an approval was found, and the gate is open already.
	approved bool
	// claim of that approval; nil for none.
	claim *identity.ClaimEffect
	// report and suggestion where the mode let it pass.
	report     *Report
	suggestion string
	// orphans by a policy, which are not marked yet.
	orphans []parent.Ref
	// cached: the holder of approvals was read from a cache.
	cached bool
}

// judgement of a deletion: what would be orphaned, and who may approve it.
type judgement struct {
	// holder of approvals; object that is deleted.
	holder, object *parent.State
	set            approval.Set
	id             string
	// why it is refused, as a clause.
	why string
	// blocked managed resources.
	blocked []*parent.State
	// terminating: it is being deleted already, and now changed so that its provider deletes
	// what it would not have deleted.
	terminating bool
	// byPolicy: an AllowancePolicy allows it.
	byPolicy bool
	mode     v1alpha1.Mode
	cached   bool
}

// zJudge a deletion of an object whose approvals are on a holder, which may be the object
// itself. The id is that of the holder, also where the object's own approvals are read.
func zJudge(f *facts.Facts, holder, object *parent.State, why string) judgement {
	return judgement{holder: holder, object: object, set: approval.ParseAt(holder.Annotations, f.Req.Time),
		id: identity.DeletionID(holder, object), why: why}
}

// externalDeletion decides about what the object represents outside the cluster,
// or below it: no external resource is orphaned or destroyed without a request for
// that, by any user (docs/specification.md, section 8) (KR-05-00).
func (ev *evaluation) externalDeletion() (outcome.Verdict, error) {
	var v outcome.Verdict
	var err error
	switch {
	case ev.Req.Operation == Create || ev.Req.Subresource != "":
	case identity.IsDeleting(ev.Req.OldObject):
		if ev.Req.Operation == Update && ev.Kind.ManagementPolicies && ev.Mode == v1alpha1.ModeEnforce {
			v, ev.deletion, err = ev.terminatingDeletion()
		}
	case ev.Req.Operation != Delete:
	case ev.Kind.ManagementPolicies:
		v, ev.deletion = ev.managedDeletion()
	case ev.Kind.Role == parent.RoleComposite, ev.Kind.Role == parent.RoleClaim:
		v, ev.deletion, err = ev.compositeDeletion()
	default:
		what := external.Destroys(ev.Req.OldObject.GroupVersionKind().GroupKind(), ev.Req.OldObject.Object)
		if what != (external.Destruction{}) {
			v, ev.deletion = ev.foreignDeletion(what)
		}
	}
	return v, err
}

// managedDeletion decides about the external resource of a managed resource
// (KR-08-10). A missing parent is no evidence that it was deleted (KR-13-03).
func (ev *evaluation) managedDeletion() (outcome.Verdict, deletion) {
	mr := parent.Sum(ev.Req.OldObject, ev.Kind.Role)
	if gating.StillDestroys(mr) {
		return ev.refuse(outcome.Refusal{Code: 403, Reason: outcome.ReasonExternalDeletion,
			Why: "its external resource is to be left behind, and its gate is still open to delete it", Next: "It is being closed. Try again in a moment."}), deletion{}
	}
	why := gating.WouldOrphan(mr)
	if why == "" {
		return outcome.Verdict{}, deletion{}
	}
	holder, terminating, cached := mr, false, false
	if ev.HasParent {
		switch p, err := ev.World.Parent(ev.ctx, ev.ParentRef, ev.live); {
		case err == nil:
			cached, terminating = !ev.live, p.Deleting()
			if ev.World.Guarded(p) { // else the approvals of the object itself count alone
				holder = p
			}
		case errors.Is(err, ErrDeleted):
			terminating = true
		}
	}
	decision := allowance.DeletionUndeclared
	if terminating {
		decision = ev.PolicySet().ExternalDeletion(ev.ParentRef.GroupKind(), mr.GroupKind())
	}
	if decision == allowance.DeletionOrphans {
		d := deletion{cached: cached}
		if ev.Mode == v1alpha1.ModeEnforce || gating.WithholdsDelete(mr) {
			d.orphans = []parent.Ref{mr.Ref}
		}
		return outcome.Verdict{}, d
	}
	j := zJudge(ev.Facts, holder, mr, why)
	j.blocked, j.byPolicy, j.mode, j.cached = []*parent.State{mr}, decision == allowance.DeletionAllowed, ev.Mode, cached
	return ev.blockedDeletion(j)
}

// compositeDeletion decides about all managed resources below a composite or Claim
// (KR-08-12). One that enforces makes the decision one of mode enforce.
func (ev *evaluation) compositeDeletion() (outcome.Verdict, deletion, error) {
	root := parent.Sum(ev.Req.OldObject, ev.Kind.Role)
	below, err := ev.World.Managed(ev.ctx, root)
	if err != nil {
		return ev.unlisted(root, err), deletion{}, nil
	}
	if ev.Req.Orphans && ev.Kind.Role == parent.RoleComposite {
		return ev.orphaningDeletion(root, below), deletion{}, nil
	}
	j := zJudge(ev.Facts, root, root, "")
	j.mode, j.byPolicy = v1alpha1.ModeEnforce, true
	var names []string
	var orphans []parent.Ref
	for _, mr := range below {
		blocks, err := ev.blocks(mr)
		if err != nil {
			return outcome.Verdict{}, deletion{}, err
		}
		decision := allowance.DeletionUndeclared
		if blocks {
			decision = ev.PolicySet().ExternalDeletion(zGovernor(ev.Facts, root, mr), mr.GroupKind())
		}
		if decision == allowance.DeletionOrphans {
			orphans = append(orphans, mr.Ref)
			continue
		}
		if !blocks {
			continue
		}
		j.byPolicy = j.byPolicy && decision == allowance.DeletionAllowed
		names, j.blocked = append(names, identity.Describe(mr.Ref)), append(j.blocked, mr)
	}
	if len(j.blocked) == 0 {
		return outcome.Verdict{}, deletion{orphans: orphans}, nil
	}
	if v, d, ok := ev.retargetedBelow(root, j.blocked); ok {
		return v, d, nil
	}
	const show = 10
	if extra := len(names) - show; extra > 0 {
		names = append(names[:show], fmt.Sprintf("%d more", extra))
	}
	j.why = "it would leave the external resources of these behind: " + strings.Join(names, ", ")
	v, d := ev.blockedDeletion(j)
	d.orphans = orphans
	return v, d, nil
}

// orphaningDeletion decides about the deletion of a composite that deletes nothing of what
// it composes (of a Claim, Crossplane deletes the composite). What is decided on the
// composite does not apply to the managed resources afterwards (KR-13-61).
func (ev *evaluation) orphaningDeletion(root *parent.State, below []*parent.State) outcome.Verdict {
	if len(below) == 0 || ev.Mode != v1alpha1.ModeEnforce {
		return outcome.Verdict{}
	}
	freeze, err := ev.FreezeOf(ev.ctx, root, ev.live)
	switch {
	case err != nil:
		return ev.refuse(outcome.UnknownFreeze(err))
	case freeze != nil:
		return ev.refuse(outcome.Frozen(freeze))
	}
	if ev.Options.ApproverRBAC {
		if r := actor.Authorize(ev.ctx, ev.Facts, &ev.warnings, "a deletion that orphans the managed resources"); r != nil {
			return ev.refuse(*r)
		}
	}
	return outcome.Verdict{}
}

// unlisted is the verdict where the managed resources below cannot be listed.
func (ev *evaluation) unlisted(root *parent.State, err error) outcome.Verdict {
	if ev.Mode == v1alpha1.ModeLog {
		ev.warnings.Add(fmt.Sprintf("cannot list the managed resources below %s: %v", identity.Describe(root.Ref), err))
		return outcome.Verdict{}
	}
	return ev.refuse(outcome.Refusal{Code: outcome.CodeInternal, Reason: outcome.ReasonParentUnreadable,
		Why: fmt.Sprintf("the managed resources below it cannot be read: %v", err), Next: "Try again."})
}

// blocks reports whether a managed resource below prevents the deletion: it would
// be orphaned, and its mode is enforce or our mask is still there.
func (ev *evaluation) blocks(mr *parent.State) (bool, error) {
	mode, invalid, err := ev.ModeOf(ev.ctx, mr.Annotations[v1alpha1.AnnotationKeyMode], mr.Namespace, ev.World.Settings(mr.Ref, mr.Labels))
	if err != nil {
		return false, err
	}
	ev.warnings.Add(invalid...)
	return (mode == v1alpha1.ModeEnforce || gating.WithholdsDelete(mr)) && gating.WouldOrphan(mr) != "", nil
}

// blockedDeletion refuses, unless the deletion is approved and the gate is open, or
// the mode is log.
func (ev *evaluation) blockedDeletion(j judgement) (outcome.Verdict, deletion) {
	d := deletion{id: j.id, cached: j.cached}
	kind := ev.KindOf(j.holder)
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonExternalDeletion, Why: j.why, Suggestion: identity.ApproveCommand(j.holder.Ref, kind, j.id)}
	use := approve.Use(ev.Facts, j.id)
	poll := approve.PollOf(ev.Facts, approve.Destroying(ev.ctx, ev.Facts, j.blocked), func() []string { return approve.Deleters(ev.Facts) })
	lacks := poll.Lacks()
	m, ok := gating.DeletionApproval(j.holder, j.object, j.set, approval.Query{Digests: []string{j.id}, Use: use, Lacks: lacks})
	votes, lacking := j.set.Tally(approval.Query{Digests: []string{j.id}, Lacks: lacks})
	if lacking != "" {
		r.Why += "; " + lacking
	}
	if ok && ev.Kind.ManagementPolicies && mask.Gives(j.object.ManagementPolicies, v1alpha1.VerbDelete) {
		if d.approved = true; m.NeedsClaim() {
			d.claim = approve.Claim(ev.Facts, j.holder, j.set, m.Entry, use)
		}
		return outcome.Verdict{}, d
	}
	if stop := ev.stops(j); ok && stop != nil {
		return j.inMode(ev.refuse(*stop)), d
	}
	switch {
	case ok:
		r.Why, r.Next = "it is approved, and the gate is being opened for it", "Try again in a moment."
	case j.byPolicy && lacking == "":
		r.Why, r.Next = "section deleting of an AllowancePolicy allows it, and the gate is being opened for it", "Try again in a moment."
		r.Approve = &outcome.ApproveEffect{Holder: j.holder.Ref, Key: v1alpha1.AnnotationKeyApprovePrefix + j.id, Value: string(v1alpha1.ApprovalOnce)}
	case j.terminating:
		r.Next = "To approve that deletion: " + r.Suggestion
	case j.set.Waits(approval.Query{Digests: []string{j.id}, Lacks: lacks}):
		r.Next = outcome.AfterOpening
		d.report, d.suggestion = deletionReport(ev.Facts, j), r.Suggestion
		d.report.Votes, d.report.Lacks = votes, lacking
	default:
		r.Next = fmt.Sprintf("To delete the external resource with it, approve and try again: %s . To leave it behind on purpose: kubectl annotate %s %s=%s",
			r.Suggestion, identity.Target(j.blocked[0].Ref, ev.KindOf(j.blocked[0])), v1alpha1.AnnotationKeyDeletion, v1alpha1.DeletionOrphan)
		d.report, d.suggestion = deletionReport(ev.Facts, j), r.Suggestion
		d.report.Votes, d.report.Lacks = votes, lacking
	}
	if j.mode == v1alpha1.ModeLog && !slices.ContainsFunc(j.blocked, gating.WithholdsDelete) {
		ev.warnings.Add(outcome.Message(ev.Facts, r))
		return outcome.Verdict{}, d
	}
	v := ev.refuse(r)
	v.Needs = poll.Needs(votes)
	return j.inMode(v), d
}

// inMode is a verdict in the mode of the judgement: a managed resource below that
// enforces decides for the whole deletion.
func (j judgement) inMode(v outcome.Verdict) outcome.Verdict {
	v.Mode = j.mode
	return v
}

// stops is the refusal by a freeze or rejection that keeps the gates closed for an
// approved deletion; nil for none.
func (ev *evaluation) stops(j judgement) *outcome.Refusal {
	freeze, err := ev.FreezeOf(ev.ctx, j.holder, ev.live)
	var r outcome.Refusal
	switch rejected := gating.DeletionRejected(j.holder, j.set, j.blocked); {
	case err != nil:
		r = outcome.UnknownFreeze(err)
	case freeze != nil:
		r = outcome.Frozen(freeze)
	case rejected != nil:
		r = outcome.Rejected(j.holder.Ref, ev.KindOf(j.holder), *rejected)
	default:
		return nil
	}
	return &r
}

// deletionReport of a deletion that would orphan or destroy an external resource.
func deletionReport(f *facts.Facts, j judgement) *Report {
	cause := "deletion"
	if u := f.Req.User.Name; u != "" {
		cause += " by " + u
	}
	report := destructionReport(f, j, cause)
	report.Repeat = carriesOut(f, j.holder)
	return report
}

// destructionReport of a deletion with a cause, on the holder of the approvals.
func destructionReport(f *facts.Facts, j judgement, cause string) *Report {
	intent, _ := trace.Intent(j.holder)
	return outcome.ReportOf(f, v1alpha1.DriftSpec{
		ID: j.id, Relation: v1alpha1.RelationExternal, Intent: intent.Generation, Cause: cause,
		SuggestedApproval: identity.ApproveCommand(j.holder.Ref, f.KindOf(j.holder), j.id),
	}, j.holder, j.set)
}

// carriesOut reports whether the DELETE comes from a user that carries out the
// decisions of others: the garbage collector, the namespace controller, Crossplane.
func carriesOut(f *facts.Facts, holder *parent.State) bool {
	if holder.Role != parent.RoleComposite && holder.Role != parent.RoleClaim {
		return f.Req.User.IsGarbageCollection()
	}
	known := subject.ControllersOf(holder.Annotations)
	return f.Req.User.IsGarbageCollection() || actor.IsRecorded(f, holder.Ref, known) || known.HasHash(f.Hash())
}

// zGovernor is the kind whose policies apply to a managed resource below what is
// deleted: that of the object itself, or of the managed resource's own parent
// where no policy targets the object's kind.
func zGovernor(f *facts.Facts, root, mr *parent.State) schema.GroupKind {
	if len(f.PolicySet().Of(root.GroupKind())) > 0 || mr.Parent.Name == "" {
		return root.GroupKind()
	}
	return mr.Parent.GroupKind()
}
