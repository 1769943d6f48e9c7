package deletion

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// judgement of a deletion: the resources that would be orphaned, and the holder of approvals for it.
type judgement struct {
	// holder of approvals; object that is deleted.
	holder, object *parent.State
	set            approval.Set
	digest         change.Digest
	// whole is the digest of the deletion of the holder with all below it, this object included; empty where the object is the holder.
	whole change.Digest
	// together are the managed resources whose external resources the approval of the holder's deletion with all below it destroys.
	together []*parent.State
	// exact: only approvals of that digest count.
	exact bool
	// why it is refused, as a clause.
	why string
	// blocked managed resources.
	blocked []*parent.State
	// terminating: it is being deleted already, and is now changed so that its provider deletes an external resource
	// that it would not have deleted.
	terminating bool
	// byPolicy: an AllowancePolicy allows it.
	byPolicy bool
	mode     v1alpha1.Mode
	cached   bool
}

// judge returns the judgement of a deletion of an object. Its approvals are on a holder, which may be the object
// itself. The digest is that of the holder, also where the object's own approvals are read.
func judge(f *facts.Facts, holder, object *parent.State, why string) judgement {
	return judgement{holder: holder, object: object, set: approval.ParseAt(holder.Annotations, f.Req.Time),
		digest: identity.DeletionDigest(holder, object), why: why}
}

// destroyed returns the managed resources whose external resources the approval of the judgement's digest destroys.
func (j judgement) destroyed() []*parent.State {
	if j.whole != "" { // that approval is about more
		return j.blocked
	}
	out := slices.Clone(j.blocked)
	for _, mr := range j.together {
		if !slices.ContainsFunc(out, func(o *parent.State) bool { return o.UID == mr.UID }) {
			out = append(out, mr)
		}
	}
	return out
}

// poll returns the Poll for an approval of the judgement's digest.
func (j judgement) poll(ev *decider) *approve.Poll {
	deleted := ev.Req.Stored().GetAnnotations()
	if j.whole == "" && len(j.together) > 0 {
		deleted = j.holder.Annotations
	}
	return approve.DeletionPoll(ev.Facts, deleted, approve.Destroying(ev.ctx, ev.Facts, j.destroyed()), j.digest.ID())
}

// paused reports whether the providers of all blocked managed resources do nothing at present: the deletion waits
// until its author lets them continue, and no gate opens before.
func (j judgement) paused() bool {
	return len(j.blocked) > 0 && !slices.ContainsFunc(j.blocked, func(mr *parent.State) bool { return !gating.PausedByPolicies(mr) })
}

// inMode returns a verdict in the mode of the judgement: a managed resource below that enforces decides for the whole
// deletion.
func (j judgement) inMode(v *outcome.Verdict) *outcome.Verdict {
	v.Mode = j.mode
	return v
}
