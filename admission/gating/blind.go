package gating

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// withoutDifference decides about a closed gate of a managed resource that shows no
// difference. Where nothing can be compared, there may be one nevertheless: an approval
// opens the gate once (KR-08-52).
func (g Managed) withoutDifference(author []string, gate v1alpha1.Gate) Decision {
	if !g.Comparable && !g.Gone {
		if d, ok := g.forgetOpened(author, gate); ok {
			return d
		}
		if d, ok := g.openBlind(author, gate); ok {
			return d
		}
	}
	return g.record(author, gate)
}

// unknownDifference is one that nothing shows. It is not modified.
var unknownDifference = []change.Change{{Path: external.Unknown, Verb: change.Mutate}}

// openBlind opens the gate by an approval for what the provider may find to do. It waits
// until the provider has observed the closed gate: what can be compared may show then.
func (g Managed) openBlind(author []string, gate v1alpha1.Gate) (Decision, bool) {
	if !g.observedClosed(gate) {
		return Decision{}, false
	}
	digest := identity.DriftDigest(g.owner().State, g.MR, unknownDifference)
	for _, h := range g.Holders {
		set := h.Decisions(g.Now)
		g.adoptPendingClaims(set.Claims, gate, digest.ID())
		set.Approvals = slices.DeleteFunc(set.Approvals, func(e approval.Entry) bool { return slices.Contains(gate.Opened, e.Content) })
		for _, verbs := range blindVerbs(author) {
			m, ok := set.Approved(g.query(h.State, verbs, digest))
			if !ok || m.Claimed != nil && HasUse(gate, m.Claimed.ID) {
				continue
			}
			if why := g.stopped(verbs); why != "" {
				return Decision{Why: why}, true
			}
			d := g.open(author, gate, h, set, m, digest.ID(), verbs, nil)
			d.Blind, d.Gate.Destroys = true, d.Gate.Destroys || destroys(g.MR.GroupKind(), m.Entry)
			if m.Entry.Mode != v1alpha1.ApprovalOnce {
				d.Gate.Opened = union(gate.Opened, []string{m.Entry.Content})
			}
			return d, true
		}
	}
	return g.askedBlind(author, digest, unknownDifference)
}

// askedBlind reports what an approval of the holders would open the gate for, had it the votes that ApprovalRules require: those are for a
// difference by its id, which nothing else shows (KR-08-52).
func (g Managed) askedBlind(author []string, digest change.Digest, unknown []change.Change) (Decision, bool) {
	for _, verbs := range blindVerbs(author) {
		votes, lacks := g.tally(verbs, digest)
		if lacks == "" || len(votes) == 0 && !slices.ContainsFunc(g.Holders, func(h identity.Holder) bool {
			q := g.query(h.State, verbs, digest)
			q.Lacks = nil
			_, asked := h.Decisions(g.Now).Approved(q)
			return asked
		}) {
			continue
		}
		return Decision{Drift: g.drift(unknown), Votes: votes, Lacks: lacks,
			Why: "what its provider would change cannot be compared, and the votes for it are missing: " + lacks}, true
	}
	return Decision{}, false
}

// blindVerbs returns the sets of verbs that an approval may open a gate for where nothing can be
// compared, the most first; never Delete, and none that the author does not give.
func blindVerbs(author []string) [][]v1alpha1.Verb {
	given := slices.DeleteFunc([]v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}, func(v v1alpha1.Verb) bool { return !mask.Gives(author, v) })
	switch len(given) {
	case 0:
		return nil
	case 1:
		return [][]v1alpha1.Verb{given}
	}
	return [][]v1alpha1.Verb{given, {v1alpha1.VerbUpdate}, {v1alpha1.VerbCreate}}
}

// forgetOpened takes approvals that no holder has any more from the list of those that
// opened the gate: the same approval, written again, opens it again. Only live holders
// show that one was removed.
func (g Managed) forgetOpened(author []string, gate v1alpha1.Gate) (Decision, bool) {
	kept := slices.DeleteFunc(slices.Clone(gate.Opened), func(content string) bool {
		return !slices.ContainsFunc(g.Holders, func(h identity.Holder) bool {
			return slices.ContainsFunc(approval.Parse(h.State.Annotations).Approvals, func(e approval.Entry) bool { return e.Content == content })
		})
	})
	switch {
	case len(kept) == len(gate.Opened):
		return Decision{}, false
	case !g.Live:
		return Decision{Live: true, Why: "whether the approvals that it was open by are removed is read live"}, true
	}
	gate.Opened = kept
	return g.stored(ActionRecord, author, gate), true
}
