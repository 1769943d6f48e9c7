package deletion

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// recount counts the votes again by which gates are open for Delete, at the deletion that destroys the external
// resources behind them: the user who requests it was no author when they were counted (KR-14-62). root is the
// deleted object.
func (ev *decider) recount(root *parent.State, below []*parent.State) (*outcome.Verdict, Finding) {
	if !ev.PolicySet().HasRules() {
		return nil, Finding{}
	}
	above, cached := ev.holderFor(root)
	if carriesOut(ev.Facts, above) || byInstance(ev) {
		return nil, Finding{}
	}
	for _, mr := range below {
		gate := mask.ParseGate(mr.Annotations)
		if mr.Deleting() || gate.Digest == "" || !gating.Destroys(mr) || !gating.IsOpenFor(mr.Annotations, v1alpha1.VerbDelete) {
			continue
		}
		changes := approve.Destroying(ev.ctx, ev.Facts, []*parent.State{mr})
		poll := approve.DeletionPoll(ev.Facts, changes, gate.Digest)
		if poll == nil {
			continue
		}
		met := slices.ContainsFunc(append(upTo(ev, root, mr), root, above), func(h *parent.State) bool {
			intent, _ := trace.Intent(h)
			q := approval.Query{Digests: []change.Digest{change.Digest(gate.Digest)}, Intent: intent.Generation, Lacks: poll.Lacks()}
			return approval.ParseAt(h.Annotations, ev.Req.Time).Lacking(q) == ""
		})
		if met {
			continue
		}
		holder := root
		if root.UID == mr.UID {
			holder = above
		}
		j := judge(ev.Facts, holder, root, "the user who requests it cannot approve it as well, and votes from before the last intent do not count")
		j.digest, j.exact, j.blocked, j.mode, j.cached = change.Digest(gate.Digest), true, []*parent.State{mr}, ev.Mode, cached
		return ev.blockedDeletion(j)
	}
	return nil, Finding{}
}

// maxBetween bounds the composites between a managed resource and a root.
const maxBetween = 8

// upTo returns a managed resource and the composites between it and a root, on each of which users may vote.
func upTo(ev *decider, root, mr *parent.State) []*parent.State {
	out := []*parent.State{mr}
	for at := mr; at.Parent.Name != "" && at.UID != root.UID && len(out) < maxBetween; {
		p, err := ev.World.Parent(ev.ctx, at.Parent, false)
		if err != nil || !parent.Linked(p, at.Ref, at.Member) {
			break // votes that cannot be read, and those on an object that is no parent, do not count
		}
		out, at = append(out, p), p
	}
	return out
}
