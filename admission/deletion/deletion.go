package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/world"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Finding is the decision about the external resources that an object represents, as far as it is made without the
// rest of the table. The zero Finding is no decision.
type Finding struct {
	// Digest of it; empty where no external resource would be destroyed or orphaned.
	Digest change.Digest
	// Approved: an approval was found, and the gate is open already.
	Approved bool
	// Claim of that approval; nil where it needs none.
	Claim *identity.ClaimEffect
	// Report and suggestion where the mode let it pass.
	Report     *outcome.Report
	Suggestion string
	// Orphans by a policy, which are not marked yet.
	Orphans []parent.Ref
	// Cached: the holder of approvals was read from a cache.
	Cached bool
}

// decider is one decision about a deletion.
type decider struct {
	*facts.Facts
	ctx context.Context //nolint:containedctx // Lives as long as the call it belongs to.
	// live: parents are read past every cache.
	live     bool
	warnings *outcome.Warnings
}

// Decide decides about the external resources that the object, or objects below it, represent: no external resource
// is orphaned or destroyed without a request for that, by any user (docs/specification.md, section 8) (KR-05-00).
func Decide(ctx context.Context, f *facts.Facts, live bool, w *outcome.Warnings) (*outcome.Verdict, Finding, error) {
	if f.Req.Operation == request.Create || f.Req.Subresource != "" {
		return nil, Finding{}, nil
	}
	terminating := identity.IsDeleting(f.Req.OldObject)
	if terminating == (f.Req.Operation == request.Delete) { // neither the deletion nor a change that makes it another one
		return nil, Finding{}, nil
	}
	ev := &decider{Facts: f, ctx: ctx, live: live, warnings: w}
	switch {
	case terminating:
		if f.Kind.ManagementPolicies && f.Mode == v1alpha1.ModeEnforce {
			return ev.terminatingDeletion()
		}
	case f.Kind.ManagementPolicies:
		v, d := ev.managedDeletion()
		return v, d, nil
	case f.Kind.Role.Composed():
		return ev.compositeDeletion()
	default:
		what := external.Destroys(f.Req.OldObject.GroupVersionKind().GroupKind(), f.Req.OldObject.Object)
		if what != (external.Destruction{}) {
			v, d := ev.foreignDeletion(what)
			return v, d, nil
		}
	}
	return nil, Finding{}, nil
}

// managedDeletion decides about the external resource of a managed resource
// (KR-08-10). A missing parent is no evidence that it was deleted (KR-13-03).
func (ev *decider) managedDeletion() (*outcome.Verdict, Finding) {
	mr := parent.Sum(ev.Req.OldObject, ev.Kind.Role)
	if gating.StillDestroys(mr) {
		return outcome.Refuse(ev.Facts, outcome.ClassNone, outcome.Refusal{Code: 403, Reason: outcome.ReasonExternalDeletion,
			Why: "its external resource is to be left behind, and its gate is still open to delete it", Next: "It is being closed. Try again in a moment."}), Finding{}
	}
	why := gating.WouldOrphan(mr)
	if why == "" {
		return ev.recount(mr, []*parent.State{mr})
	}
	holder, terminating, cached := mr, false, false
	if ev.HasParent {
		switch p, err := readParent(ev); {
		case err == nil:
			cached, terminating = !ev.live, p.Deleting()
			if ev.World.Guarded(p) { // else the approvals of the object itself count alone
				holder = p
			}
		case errors.Is(err, world.ErrDeleted):
			terminating = true
		}
	}
	decision := allowance.DeletionUndeclared
	if terminating {
		decision = ev.PolicySet().ExternalDeletion(ev.ParentRef.GroupKind(), mr.GroupKind())
	}
	if decision == allowance.DeletionOrphans {
		d := Finding{Cached: cached}
		if ev.Mode == v1alpha1.ModeEnforce || gating.WithholdsDelete(mr) {
			d.Orphans = []parent.Ref{mr.Ref}
		}
		return nil, d
	}
	j := judge(ev.Facts, holder, mr, why)
	j.blocked, j.byPolicy, j.mode, j.cached = []*parent.State{mr}, decision == allowance.DeletionAllowed, ev.Mode, cached
	if j.paused() {
		if err := withWhole(ev, &j); err != nil {
			return ev.unlisted(holder, err), Finding{}
		}
	}
	return ev.blockedDeletion(j)
}

// blockedDeletion refuses a deletion, unless it is approved and the gate is open, or the mode is log.
func (ev *decider) blockedDeletion(j judgement) (*outcome.Verdict, Finding) {
	d := Finding{Digest: j.digest, Cached: j.cached}
	kind := ev.KindOf(j.holder)
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonExternalDeletion, Why: j.why, Suggestion: identity.ApproveCommand(j.holder, kind, j.digest.ID())}
	ask := approval.Query{Digests: []change.Digest{j.digest}, Use: approve.Use(ev.Facts, j.digest.ID()), Exact: j.exact}
	poll := j.poll(ev)
	ask.Lacks, ask.Counted = poll.Lacks(), poll.Counted()
	m, ok := gating.DeletionApproval(j.holder, j.object, j.set, ask)
	if !ok && j.whole != "" {
		whole, of := j, ask
		whole.digest, whole.whole = j.whole, ""
		of.Digests, of.Lacks, of.Counted = []change.Digest{j.whole}, whole.poll(ev).Lacks(), whole.poll(ev).Counted()
		m, ok = gating.DeletionApproval(j.holder, j.object, j.set, of)
	}
	votes, lacking := j.set.Tally(ask)
	if lacking != "" {
		r.Why += "; " + lacking
	}
	if v, is := ev.settles(j, m, ok, lacking == "", &d); is {
		return v, d
	}
	switch {
	case ok:
		r.Why, r.Next = "it is approved, and the gate is being opened for it", "Try again in a moment."
	case j.byPolicy && lacking == "":
		r.Why, r.Next = "section deleting of an AllowancePolicy allows it, and the gate is being opened for it", "Try again in a moment."
		r.Approve = &outcome.ApproveEffect{Holder: j.holder.Ref, Key: v1alpha1.AnnotationKeyApprovePrefix + j.digest.ID(), Value: string(v1alpha1.ApprovalOnce)}
	case j.terminating:
		r.Next = "To approve that deletion: " + r.Suggestion
	default:
		if r.Next = outcome.AfterOpening; !j.set.Waits(ask) {
			r.Next = fmt.Sprintf("To delete the external resource with it, approve and try again: %s ; to leave it behind on purpose: %s",
				r.Suggestion, orphanCommands(ev, j.blocked))
		}
		d.Report, d.Suggestion = deletionReport(ev, j), r.Suggestion
		d.Report.Votes, d.Report.Lacks = votes, lacking
	}
	if j.mode == v1alpha1.ModeLog && !slices.ContainsFunc(j.blocked, gating.WithholdsDelete) {
		ev.warnings.Add(outcome.Message(ev.Facts, r))
		return nil, d
	}
	v := outcome.Refuse(ev.Facts, outcome.ClassNone, r)
	v.Needs, v.Lacks = poll.Needs(votes), lacking
	return j.inMode(v), d
}

// maxOrphaned is for how many managed resources a message has the command that leaves the external resource behind.
const maxOrphaned = 5

// orphanCommands returns the commands that leave the external resources of managed resources behind, as one line of a shell.
func orphanCommands(ev *decider, blocked []*parent.State) string {
	commands := make([]string, 0, maxOrphaned)
	for _, mr := range blocked[:min(len(blocked), maxOrphaned)] {
		commands = append(commands, fmt.Sprintf("kubectl annotate %s %s=%s", identity.Target(mr.Ref, ev.KindOf(mr)), v1alpha1.AnnotationKeyDeletion,
			v1alpha1.DeletionOrphan))
	}
	out := strings.Join(commands, " && ")
	if more := len(blocked) - maxOrphaned; more > 0 {
		out += fmt.Sprintf(" , and so for %d more", more)
	}
	return out
}

// settles reports whether the approval of a deletion, or a freeze or rejection of it, decides about it regardless of
// the gates that are open. It does where the provider deletes with the present policies. It also does where the
// provider does nothing at present, so that the approval is used once it continues (KR-13-66).
func (ev *decider) settles(j judgement, m approval.Match, approved, voted bool, d *Finding) (*outcome.Verdict, bool) {
	if approved && ev.Kind.ManagementPolicies && mask.Gives(j.object.ManagementPolicies, v1alpha1.VerbDelete) {
		if d.Approved = true; m.NeedsClaim() && (j.whole == "" || m.Entry.Digest != j.whole.ID()) { // that of the whole ends with the holder
			d.Claim = identity.Claim(j.holder, j.set.Claims, m, approve.Use(ev.Facts, j.digest.ID()), ev.Req.Time)
		}
		return nil, true
	}
	paused := j.paused() && (approved || j.byPolicy && voted)
	if !approved && !paused {
		return nil, false
	}
	if stop := ev.stops(j); stop != nil {
		return j.inMode(outcome.Refuse(ev.Facts, outcome.ClassNone, *stop)), true
	}
	d.Approved = paused
	return nil, paused
}

// withWhole adds the deletion of the holder with everything below it. An approval of that also approves the deletion of
// the object, where an open gate does not show it already.
func withWhole(ev *decider, j *judgement) error {
	if j.holder.UID == j.object.UID || !j.holder.Role.Composed() || !j.set.Exact() {
		return nil
	}
	below, err := ev.World.Managed(ev.ctx, j.holder)
	if err != nil {
		return err
	}
	if whole := identity.WholeOf(j.holder, below); whole.Has(j.object) {
		j.whole, j.together = whole.Digest, gating.Destroyed(ev.PolicySet(), j.holder, below)
	}
	return nil
}

// stops returns the refusal by a freeze or rejection that keeps the gates closed for an approved deletion; nil where
// there is no such freeze or rejection.
func (ev *decider) stops(j judgement) *outcome.Refusal {
	destroyed := j.destroyed()
	freeze, err := ev.FreezeOf(ev.ctx, j.holder, ev.live)
	var r outcome.Refusal
	switch rejected := gating.DeletionRejected(j.holder, j.set, destroyed); {
	case err != nil:
		r = outcome.UnknownFreeze(err)
	case freeze != nil:
		r = outcome.Frozen(freeze)
	case rejected != nil:
		at := max(0, slices.IndexFunc(destroyed, func(mr *parent.State) bool { return mr.Name == rejected.Name && mr.Kind == rejected.Kind }))
		r = outcome.Rejected(j.holder.Ref, ev.KindOf(j.holder), *rejected, destroyed[at].Ref, ev.KindOf(destroyed[at]))
	default:
		return nil
	}
	return &r
}
