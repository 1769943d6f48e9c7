package gating

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// windowClosed closes a gate that is open by an approval when a window of the ApprovalRules closes, and the provider has
// begun nothing (KR-14-16). The approval is not used up: it opens the gate when a window opens again.
func (g Managed) windowClosed(author []string, gate v1alpha1.Gate) (Decision, bool) {
	verbs := byApproval(gate)
	if len(verbs) == 0 {
		return Decision{}, false
	}
	if s, windowed := windowsOf(g, verbs, gate.Digest).Windows(g.votesFor(gate), g.Now); !windowed || s.Open {
		return Decision{}, false
	}
	if slices.Contains(verbs, v1alpha1.VerbDelete) {
		if rest := notDelete(gate.Verbs); len(rest) > 0 {
			return g.withoutDelete(author, gate, rest, v1alpha1.GateReasonWindow), true
		}
	} else if g.begun(gate) {
		return Decision{}, false
	}
	gate.Claim = "" // it opened nothing that was carried out
	return g.close(author, gate, ActionClose, v1alpha1.GateReasonWindow), true
}

// byApproval returns the verbs that a gate is open for by an approval alone; nil where an accepted change has added to
// them.
func byApproval(gate v1alpha1.Gate) []v1alpha1.Verb {
	switch {
	case gate.State != v1alpha1.GateOpen, gate.Reason != v1alpha1.GateReasonApproved && gate.Reason != v1alpha1.GateReasonDeletionApproved:
		return nil
	case slices.Contains(gate.Verbs, v1alpha1.VerbDelete):
		return []v1alpha1.Verb{v1alpha1.VerbDelete}
	}
	return gate.Verbs
}

// notDelete returns verbs without Delete.
func notDelete(verbs []v1alpha1.Verb) []v1alpha1.Verb {
	return slices.DeleteFunc(slices.Clone(verbs), func(v v1alpha1.Verb) bool { return v == v1alpha1.VerbDelete })
}

// begun reports whether the provider may have begun what the gate was opened for: it has, unless it reports that it has not
// observed the opening.
func (g Managed) begun(gate v1alpha1.Gate) bool {
	synced, _ := g.MR.Condition("Synced")
	switch seen := g.seen(synced); {
	case g.asyncPending():
		return true
	case seen > 0:
		return seen >= gate.Generation
	case g.Kind.ReconcileRequests && g.RequestedAt != "":
		return g.HandledAt == g.RequestedAt
	}
	return true
}

// votesFor returns the votes for the approval that a gate was opened by, whether or not its claim is
// finished.
func (g Managed) votesFor(gate v1alpha1.Gate) []v1alpha1.Vote {
	var out []v1alpha1.Vote
	for _, h := range g.Holders {
		for _, c := range approval.ParseClaims(h.State.Annotations[v1alpha1.AnnotationKeyClaims]) {
			if gate.Digest != "" && c.Digest == gate.Digest || HasUse(gate, c.ID) || HasUse(gate, c.Content) {
				out = append(out, c.By...)
			}
		}
	}
	return out
}

// untilWindow returns the decision, to be made again when a window opens or closes, which changes no
// object (KR-14-16).
func (g Managed) untilWindow(d Decision, needs []v1alpha1.Verb) Decision {
	if d.Action != ActionNone || g.Mode != v1alpha1.ModeEnforce || !g.Policies.HasRules() {
		return d
	}
	gate := mask.ParseGate(g.MR.Annotations)
	verbs, digest := byApproval(gate), gate.Digest
	if gate.State == v1alpha1.GateClosed && g.approvals() {
		digest, verbs = "", union(needs, []v1alpha1.Verb{v1alpha1.VerbDelete})
	}
	if len(verbs) == 0 {
		return d
	}
	for _, v := range verbs { // rules may match one of them alone
		s, _ := windowsOf(g, []v1alpha1.Verb{v}, digest).Windows(nil, g.Now)
		if s.Until.IsZero() {
			continue
		}
		if left := max(s.Until.Sub(g.Now), time.Second); d.Again == 0 || left < d.Again {
			d.Again = left
		}
	}
	return d
}

// approvals reports whether a holder has any.
func (g Managed) approvals() bool {
	return slices.ContainsFunc(g.Holders, func(h identity.Holder) bool { return len(h.Decisions(g.Now).Approvals) > 0 })
}
