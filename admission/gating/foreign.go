package gating

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ActionMask again what its author, or GitOps in the author's name, wrote over the
// mask. The gate stays as it is.
const ActionMask Action = "Mask"

// Foreign decides about the gate of an object of an external system that
// has no managementPolicies: a Terraform object of Flux, an Argo CD Application
// (KR-08-42). Approvals, claims, deadlines and reports are those of Managed.
type Foreign struct {
	Managed
	// View of the object, by its system.
	View external.View
	// System's name, for allowances.
	System string
}

// Decide makes the decision about the gate as it is now.
func (g Foreign) Decide() Decision {
	g.Difference = g.View.Difference // which ApprovalRules match
	return g.untilThawed(g.untilWindow(g.decide(), g.needs()))
}

func (g Foreign) decide() Decision {
	gate := mask.ParseGate(g.MR.Annotations)
	switch {
	case g.MR.Deleting():
		return Decision{Why: "it is being deleted"}
	case g.Mode != v1alpha1.ModeEnforce:
		return g.lift(gate, "the mode is log")
	case g.View.State == external.StateFree:
		return g.lift(gate, g.View.Why)
	case !g.View.Masked && !g.View.Idle:
		return Decision{Why: "it is not idle yet"}
	case !g.View.Masked:
		return g.shut(v1alpha1.Gate{Claim: g.unfinished(gate)}, ActionInstall, v1alpha1.GateReasonInstalled)
	case gate.State == v1alpha1.GateOpen:
		return g.opened(gate)
	case g.View.State == external.StateOpen:
		return Decision{Action: ActionMask, Gate: gate, Why: "its author's value was written again"}
	}
	return g.shutStill(gate)
}

// lift removes the mask. An opening by approval is closed first, and the approval finished, as by
// Managed.
func (g Foreign) lift(gate v1alpha1.Gate, why string) Decision {
	switch {
	case !g.View.Masked && gate.State == "":
		return Decision{Why: why}
	case gate.State == v1alpha1.GateOpen && gate.Claim != "":
		return g.shut(gate, ActionClose, v1alpha1.GateReasonRestored)
	}
	if d, wait := g.unspent(gate); wait {
		return d
	}
	return Decision{Action: ActionRestore, Why: why}
}

// shut closes the gate. Every write of these objects moves their generation.
func (g Foreign) shut(was v1alpha1.Gate, action Action, reason string) Decision {
	was.State, was.Reason, was.Generation, was.At = v1alpha1.GateClosed, reason, g.MR.Generation+1, approval.Stamp(g.Now)
	return Decision{Action: action, Gate: was, Edits: spendAll(was, g.MR, g.Now)}
}

// opened decides about an open gate: its change is confirmed, over, past its deadline, or waited for.
func (g Foreign) opened(gate v1alpha1.Gate) Decision {
	left := LastEndOf(gate, g.Deadline).Sub(g.Now)
	switch {
	case g.View.Over != "":
		return g.shut(gate, ActionClose, g.View.Over)
	case g.View.Unconfirmed == "":
		return g.shut(gate, ActionClose, v1alpha1.GateReasonConfirmed)
	case left <= 0:
		return g.shut(gate, ActionClose, v1alpha1.GateReasonExpired)
	case g.frozen() != nil:
		return g.shutFrozen(gate)
	}
	return Decision{Why: g.View.Unconfirmed, Again: left}
}

// shutFrozen closes the gate while a freeze is in force (KR-14-42). What an accepted change or an allowance of it is the cause of
// passes when the freeze ends; an approval is used up.
func (g Foreign) shutFrozen(gate v1alpha1.Gate) Decision {
	d := g.shut(gate, ActionClose, v1alpha1.GateReasonFrozen)
	if own := trace.Of(g.MR.Annotations).Own(); own != nil && (gate.Reason == v1alpha1.GateReasonChanged || gate.Reason == v1alpha1.GateReasonAllowed) {
		d.Gate.Generation = own.Generation
	}
	return d
}

// shutStill decides about a closed gate: a difference is let through where it comes from an accepted
// change of the object, or an allowance or approval permits it, and is reported otherwise.
func (g Foreign) shutStill(gate v1alpha1.Gate) Decision {
	diff := g.View.Difference
	switch {
	case len(diff) == 0 && g.changed(gate) && g.View.Current && g.View.Idle:
		// What comes later does not come from this change.
		return g.shut(gate, ActionClose, v1alpha1.GateReasonNothing)
	case len(diff) == 0:
		return Decision{Why: "it is closed"}
	case g.View.Busy != "":
		return Decision{Why: g.View.Busy}
	case !g.View.Current:
		return Decision{Why: "what it would do now is not known yet"}
	}
	if reason := g.caused(gate); reason != "" {
		if f := g.frozen(); f != nil {
			return Decision{Why: f.Why()}
		}
		next := v1alpha1.Gate{State: v1alpha1.GateOpen, Verbs: g.View.Verbs, Generation: g.MR.Generation + 1, At: approval.Stamp(g.Now),
			Claim: g.unfinished(gate), Paths: change.Paths(diff), Reason: reason}
		return Decision{Action: ActionOpen, Gate: next}
	}
	for _, h := range g.Holders {
		if d, ok := g.approvedBy(h, gate); ok {
			return d
		}
	}
	why := "no approval covers what it would do"
	votes, lacks := g.tally(g.needs(), identity.DriftDigest(g.owner().State, g.MR, diff))
	if lacks != "" {
		why += ": " + lacks
	}
	return Decision{Drift: g.drift(diff), Why: why, Votes: votes, Lacks: lacks}
}

// caused returns the reason to open where a user's change of the object since the
// last transition of the gate is the cause, or an allowance of such a change; "" for
// none. Destruction needs more than a change. While the policy is suspended, nothing opens
// the gate: the change is the cause afterwards, too.
func (g Foreign) caused(gate v1alpha1.Gate) string {
	if g.Suspended {
		return ""
	}
	needs := g.needs()
	if g.changed(gate) && !g.View.Foreign && !slices.Contains(needs, v1alpha1.VerbDelete) {
		return v1alpha1.GateReasonChanged
	}
	permissions, err := external.ParsePermissions(g.MR.Annotations[v1alpha1.AnnotationKeyAllowances])
	if err != nil {
		return "" // what is not understood permits nothing
	}
	permissions = external.Unconsumed(permissions, gate.Generation-1)
	target := map[string]string{"system": g.System, "kind": g.MR.Kind, "name": g.MR.Name}
	system := verb.Of(g.MR.GroupKind())
	for _, v := range needs {
		if !slices.ContainsFunc(permissions, func(p external.Permission) bool { return p.Generation > 0 && p.Permits(system, v, target) }) {
			return ""
		}
	}
	return v1alpha1.GateReasonAllowed
}

// changed reports whether a user changed the object since the last transition.
// The generation that the gate shows is at most the one of that write.
func (g Foreign) changed(gate v1alpha1.Gate) bool {
	hop := trace.Of(g.MR.Annotations).Own()
	return hop != nil && !hop.Unattributed && hop.Generation >= gate.Generation
}

// approvedBy decides about the gate by an approval on a holder, in the verbs of the system or of
// Crossplane: it opens the gate unless something stops that. It reports false where no approval
// applies.
func (g Foreign) approvedBy(h identity.Holder, gate v1alpha1.Gate) (Decision, bool) {
	diff := g.View.Difference
	digest := identity.DriftDigest(h.State, g.MR, diff)
	set := h.Decisions(g.Now)
	g.adoptPendingClaims(set.Claims, gate, digest.ID())
	q := g.query(h.State, g.needs(), digest)
	q.Named = false // "*" is each of them
	if h.State.UID == g.MR.UID {
		q.Intent = RecordedIntent(h.State.Annotations) // the generation of some of these kinds moves with their status
	}
	m, ok := set.Approved(q)
	if !ok || m.Claimed != nil && HasUse(gate, m.Claimed.ID) {
		return Decision{}, false
	}
	if why := g.stopped(g.View.Verbs); why != "" {
		return Decision{Drift: g.drift(diff), Why: why}, true
	}
	d := g.open(nil, gate, h, set, m, digest.ID(), g.View.Verbs, change.Paths(diff))
	d.Gate.Generation, d.Policies = g.MR.Generation+1, nil
	return d, true
}

// needs returns the verbs of Crossplane that removing the difference takes; all for a verb that the
// system does not have.
func (g Foreign) needs() []v1alpha1.Verb {
	system := verb.Of(g.MR.GroupKind())
	var out []v1alpha1.Verb
	for _, v := range g.View.Verbs {
		means := system.Means(string(v))
		if means == nil {
			means = system.Means(string(v1alpha1.VerbAll))
		}
		out = union(out, means)
	}
	return out
}

// RecordedIntent returns the generation of an object's last hop; 0 where it has none.
func RecordedIntent(annotations map[string]string) int64 {
	if hop := trace.Of(annotations).Own(); hop != nil {
		return hop.Generation
	}
	return 0
}
