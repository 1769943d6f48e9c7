package deletion

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
)

// recount counts the votes again by which gates are open for Delete, at the deletion that destroys the external
// resources behind them: the user who requests it was no author when they were counted (KR-14-62). root is the
// deleted object.
func (ev *decider) recount(root *parent.State, below []*parent.State) (*outcome.Verdict, Finding) {
	if !ev.PolicySet().HasRules() {
		return nil, Finding{}
	}
	holder, cached := ev.holderFor(root)
	if carriesOut(ev.Facts, holder) || byInstance(ev) {
		return nil, Finding{}
	}
	type opening struct {
		digest string
		of     types.UID
	}
	counted, wholes := map[opening]bool{}, map[types.UID]identity.Whole{}
	for _, mr := range below {
		gate := mask.ParseGate(mr.Annotations)
		if counted[opening{gate.Digest, mr.UID}] || !gating.OpenedBy(mr, gate.Digest) {
			continue
		}
		above, at := upTo(ev, mr, root), root
		if root.UID == mr.UID {
			at = holder
		}
		j := judge(ev.Facts, at, root, "the user who requests it cannot approve it as well, and votes from before the last intent do not count")
		j.digest, j.exact, j.blocked, j.mode, j.cached = change.Digest(gate.Digest), true, []*parent.State{mr}, ev.Mode, cached
		if len(above) > 1 && gate.Digest != identity.DeletionDigest(above[1], mr).ID() { // else it was opened for its own deletion
			if err := approvedAbove(ev, &j, above, wholes); err != nil {
				return ev.unlisted(root, err), Finding{}
			}
		}
		poll := j.poll(ev)
		if poll == nil {
			continue
		}
		if met := slices.ContainsFunc(append(above, root, holder), func(h *parent.State) bool {
			intent, _ := trace.Intent(h)
			q := approval.Query{Digests: []change.Digest{j.digest}, Intent: intent.Generation, Lacks: poll.Lacks()}
			return approval.ParseAt(h.Annotations, ev.Req.Time).Lacking(q) == ""
		}); !met {
			return ev.blockedDeletion(j)
		}
		for _, other := range j.together {
			counted[opening{gate.Digest, other.UID}] = true
		}
	}
	return nil, Finding{}
}

// approvedAbove completes the judgement about a gate where it was opened by an approval of the deletion of something above, with all below that.
// What the deletion of each deletes is read once, into wholes.
func approvedAbove(ev *decider, j *judgement, above []*parent.State, wholes map[types.UID]identity.Whole) error {
	for _, h := range above {
		if !h.Role.Composed() {
			continue
		}
		whole, known := wholes[h.UID]
		if !known {
			below, err := ev.World.Managed(ev.ctx, h)
			if err != nil {
				return err
			}
			whole = identity.WholeOf(h, below)
			wholes[h.UID] = whole
		}
		if whole.Digest.ID() == string(j.digest) {
			below, _ := whole.Below()
			j.holder, j.set, j.together = h, approval.ParseAt(h.Annotations, ev.Req.Time), gating.Destroyed(ev.PolicySet(), h, below)
			return nil
		}
	}
	return nil
}

// maxBetween bounds a managed resource and what is above it.
const maxBetween = 8

// upTo returns a managed resource and what is above it, on which users may vote. The deleted object is the one of the request: the cache may have it
// from before the last intent.
func upTo(ev *decider, mr, root *parent.State) []*parent.State {
	out := []*parent.State{mr}
	for at, n := mr, 1; at.Parent.Name != "" && n < maxBetween; n++ {
		p, err := ev.World.Parent(ev.ctx, at.Parent, false)
		if err != nil || !parent.Linked(p, at.Ref, at.Member) {
			break // votes that cannot be read, and those on an object that is no parent, do not count
		}
		if p.UID == root.UID {
			p = root
		}
		if at = p; ev.World.Guarded(p) { // else its approvals do not count (KR-13-15)
			out = append(out, p)
		}
	}
	return out
}
