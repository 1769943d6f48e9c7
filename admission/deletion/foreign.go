package deletion

import (
	"errors"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/world"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// foreignDeletion decides about an object that destroys its external resource when it
// is deleted, and has no managementPolicies to hold it: the deletion needs an
// approval. No gate opens before; the deletion itself passes (KR-08-42).
func (ev *decider) foreignDeletion(what external.Destruction) (*outcome.Verdict, Finding) {
	o := parent.Sum(ev.Req.OldObject, ev.Kind.Role)
	holder, cached := ev.holderFor(o)
	j := judge(ev.Facts, holder, o, what.Why)
	j.mode, j.cached = ev.Mode, cached
	d := Finding{Digest: j.digest, Cached: cached}
	destroyed := approve.Destroying(ev.ctx, ev.Facts, []*parent.State{o})
	poll := approve.DeletionPoll(ev.Facts, ev.Req.Stored().GetAnnotations(), destroyed, j.digest.ID())
	ask := destructionQuery(ev.Facts, j, poll)
	if d.Approved, d.Claim = destructionApproved(ev.Facts, j, ask, what.Verb); d.Approved {
		return nil, d
	}
	votes, lacking := j.set.Tally(ask)
	if lacking == "" && ev.policyDestroys() {
		return nil, d
	}
	suggestion := identity.ApproveCommand(holder, ev.KindOf(holder), j.digest.ID())
	r := outcome.Refusal{Code: 403, Reason: outcome.ReasonExternalDeletion, Why: what.Why, Suggestion: suggestion, Next: outcome.AfterOpening}
	if lacking != "" { // (KR-14-12)
		r.Why += "; " + lacking
	}
	if !j.set.Waits(ask) {
		r.Next = fmt.Sprintf("To delete all of that, approve and try again: %s ; to leave it behind, first: kubectl patch %s %s",
			suggestion, identity.Target(o.Ref, ev.KindOf(o)), what.Otherwise)
	}
	d.Report, d.Suggestion = destructionReport(ev.Facts, j, outcome.CauseOf(ev.Facts, holder)), suggestion
	d.Report.Votes, d.Report.Lacks, d.Report.Repeat = votes, lacking, byInstance(ev)
	if ev.Mode == v1alpha1.ModeLog {
		ev.warnings.Add(outcome.Message(ev.Facts, r))
		return nil, d
	}
	v := outcome.Refuse(ev.Facts, outcome.ClassNone, r)
	v.Needs, v.Lacks = poll.Needs(votes), lacking
	return v, d
}

// policyDestroys reports whether section deleting of a policy allows the destruction, by an External verb of the
// object's system: its parent is being deleted (KR-06-12, KR-08-50). A missing parent is no evidence that it was
// deleted.
func (ev *decider) policyDestroys() bool {
	if !ev.HasParent {
		return false
	}
	p, err := readParent(ev)
	if terminating := err == nil && p.Deleting() || errors.Is(err, world.ErrDeleted); !terminating {
		return false
	}
	return ev.PolicySet().ExternalDeletion(ev.ParentRef.GroupKind(), ev.Req.Kind.GroupKind()) == allowance.DeletionAllowed
}

// holderFor returns the object on which approvals of the deletion of an object are read: its parent where that exists
// and is guarded, otherwise the object itself. cached is true where the parent was read from a cache.
func (ev *decider) holderFor(o *parent.State) (holder *parent.State, cached bool) {
	if !ev.HasParent {
		return o, false
	}
	p, err := readParent(ev)
	switch {
	case err != nil:
		return o, false
	case !ev.World.Guarded(p):
		return o, !ev.live
	}
	return p, !ev.live
}

// readParent reads the parent. Nothing shows of an instance of a graph that is deleted that it contained the object.
func readParent(ev *decider) (*parent.State, error) {
	p, err := facts.ReadParent(ev.ctx, ev.Facts, ev.live)
	if errors.Is(err, facts.ErrNotLinked) {
		return nil, world.ErrNotFound
	}
	return p, err
}

// destructionQuery returns the query of the approvals of a deletion, without verbs.
func destructionQuery(f *facts.Facts, j judgement, poll *approve.Poll) approval.Query {
	apiVersion, kind := j.object.ToAPIVersionAndKind()
	hop, _ := trace.Intent(j.holder)
	intent := hop.Generation
	if j.holder.UID == j.object.UID {
		intent = gating.RecordedIntent(j.object.Annotations)
	}
	return approval.Query{
		APIVersion: apiVersion, Kind: kind, Name: j.object.Name, Resource: j.object.Annotations[v1alpha1.AnnotationKeyCompositionResourceName],
		Relation: v1alpha1.RelationExternal, Digests: []change.Digest{j.digest}, Intent: intent, Use: approve.Use(f, j.digest.ID()),
		Lacks: poll.Lacks(), Counted: poll.Counted(),
	}
}

// destructionApproved reports whether the object's own approvals or its parent's allow the deletion, by Crossplane's
// verb or the system's. It also returns the claim of a once approval.
func destructionApproved(f *facts.Facts, j judgement, ask approval.Query, verb v1alpha1.Verb) (bool, *identity.ClaimEffect) {
	for _, v := range []v1alpha1.Verb{v1alpha1.VerbDelete, verb} {
		ask.Verbs = []v1alpha1.Verb{v}
		m, ok := j.set.Approved(ask)
		switch {
		case !ok:
			continue
		case m.NeedsClaim():
			return true, identity.Claim(j.holder, j.set.Claims, m, ask.Use, f.Req.Time)
		}
		return true, nil
	}
	return false, nil
}
