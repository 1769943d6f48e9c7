package gating

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Action is what the gate controller is to do with an MR.
type Action string

const (
	// ActionNone: the gate is in the right state.
	ActionNone Action = ""
	// ActionRestore the author's policies: the mode is log, or nothing is to mask.
	ActionRestore Action = "Restore"
	// ActionInstall the closed mask for the first time.
	ActionInstall Action = "Install"
	// ActionOpen verbs that were approved.
	ActionOpen Action = "Open"
	// ActionClose what was opened: confirmed, or past its deadline.
	ActionClose Action = "Close"
	// ActionRecord what the provider shows behind the closed gate; nothing else changes.
	ActionRecord Action = "Record"
)

// Managed is the state of one managed resource and of what its gate depends on
// (docs/specification.md, section 8).
type Managed struct {
	MR   *parent.State
	Kind identity.Kind
	Mode v1alpha1.Mode
	Observed
	// Holders of approvals, nearest first: the MR, its XR, its Claim.
	Holders []identity.Holder
	// Covering is what may freeze the managed resource from outside, where that is not one of the
	// Holders.
	Covering identity.Covering
	// Live: the Holders were read from the API server, not from a cache.
	Live bool
	// Deadline after which an unconfirmed opening is closed.
	Deadline time.Duration
	// CreationGrace is for how long a gate that was opened for a creation stays open after the managed resource is
	// Ready; 0 to close it at once.
	CreationGrace time.Duration
	CloseTo       []v1alpha1.Verb
	// CarryPendingDrift as in Options.
	CarryPendingDrift bool
	// Policies with the ApprovalRules; nil for none.
	Policies *allowance.Set
	// Suspended: the policy is, and no approval opens the gate.
	Suspended bool
	// ByFunction reports whether the composition function makes the transitions, which cannot
	// write to the Holders. It takes no claims: the gate
	// shows the use of a once approval by the content of that approval, and Decide
	// relies on the Holders' claims to list what is used.
	ByFunction bool
	// User hash of the gate controller, for claims.
	User string
	Now  time.Time
}

// DefaultCreationGrace is for how long the gate of a creation stays open once the managed resource is Ready.
const DefaultCreationGrace = 30 * time.Second

// Decision of the gate controller.
type Decision struct {
	Action Action
	// Gate to store with the action.
	Gate v1alpha1.Gate
	// Policies to store with the action.
	Policies []string
	// Author's value to remember; nil removes what is remembered.
	Author []string
	// Annotations to store with the action beside those; nil values remove.
	Annotations map[string]*string
	// Claim to take before opening, on Claim.Holder; nil for none.
	Claim *identity.ClaimEffect
	// Edits of the MR's other annotations in the same write, nil values removing:
	// approvals that it holds itself are claimed and finished by them.
	Edits map[string]*string
	// Once: the gate opens by a once approval that was not claimed before.
	Once bool
	// Approval by which the gate opens; nil where it opens by none.
	Approval *v1alpha1.HopApproval
	// Blind: the gate opens although nothing can be compared.
	Blind bool
	// Drift of the external resource that is not approved; nil for none.
	Drift *v1alpha1.DriftSpec
	// Votes for the Drift, and what they lack, where ApprovalRules match it (KR-14-12).
	Votes []v1alpha1.Vote
	Lacks string
	// Live: decide again, with Holders that were read live.
	Live bool
	// Again is when to look again; 0 for never.
	Again time.Duration
	// Why nothing is done, as a clause.
	Why string
}

// Decide makes the decision about the gate of an MR as it is now.
func (g Managed) Decide() Decision {
	return g.untilThawed(g.untilWindow(g.decide(), []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate}))
}

// untilThawed returns the decision, to be made again when a freeze ends by itself, which changes no
// object (KR-14-37).
func (g Managed) untilThawed(d Decision) Decision {
	f := g.frozen()
	if f == nil || d.Action != ActionNone {
		return d
	}
	if left := f.Left(g.Now); left > 0 && (d.Again == 0 || left < d.Again) {
		d.Again = left
	}
	return d
}

func (g Managed) decide() Decision {
	author := mask.AuthorOf(g.MR.Annotations, g.MR.ManagementPolicies)
	_, remembered := mask.ParseAuthor(g.MR.Annotations[v1alpha1.AnnotationKeyManagementPolicies])
	switch {
	case g.MR.Deleting():
		return Decision{Why: "it is being deleted"}
	case g.Mode != v1alpha1.ModeEnforce:
		return g.restore(author, remembered)
	case !mask.Maskable(author):
		return g.restore(author, remembered)
	case !remembered:
		return g.install(author)
	}
	gate := mask.ParseGate(g.MR.Annotations)
	if !mask.Accepts(g.Kind.Runtime, g.MR.ManagementPolicies) {
		return g.remask(author, gate)
	}
	if d, ok := g.whileRetargeted(author, gate); ok {
		return d
	}
	if d, ok := g.deletion(author, gate); ok {
		return d
	}
	if gate.State == v1alpha1.GateOpen && g.MR.Copied && !slices.Contains(gate.Verbs, v1alpha1.VerbCreate) {
		return g.close(author, gate, ActionClose, v1alpha1.GateReasonExpired) // it was opened for an object that is gone (KR-13-58)
	}
	if d, ok := g.frozenOpen(author, gate); ok {
		return d
	}
	if d, ok := g.windowClosed(author, gate); ok {
		return d
	}
	if gate.State == v1alpha1.GateOpen {
		return g.whileOpen(author, gate)
	}
	return g.whileClosed(author, gate)
}

// restore restores the author's value. An opening by approval is closed first, and the approval
// finished: the gate annotation is the only record of its use (KR-08-19).
func (g Managed) restore(author []string, remembered bool) Decision {
	gate := mask.ParseGate(g.MR.Annotations)
	switch {
	case !remembered && gate.State == "":
		return Decision{Why: "it is not masked"}
	case gate.State == v1alpha1.GateOpen && gate.Claim != "":
		return g.close(author, gate, ActionClose, v1alpha1.GateReasonRestored)
	}
	if d, wait := g.unspent(gate); wait {
		return d
	}
	return Decision{Action: ActionRestore, Policies: author}
}

// finishAgain is when a gate is decided about again that waits for its approvals to
// be finished. A change of their holder wakes it earlier.
const finishAgain = time.Second

// unspent reports whether approvals that a gate was open by may not be finished
// yet. Without the gate annotation no record of their use would remain, and they
// would open another gate. Only live holders answer that.
func (g Managed) unspent(gate v1alpha1.Gate) (d Decision, wait bool) {
	switch {
	case gate.Claim == "":
		return Decision{}, false
	case !g.Live:
		return Decision{Live: true, Why: "whether the approvals that it was open by are finished is read live"}, true
	case slices.ContainsFunc(g.Holders, func(h identity.Holder) bool { return ClaimToFinish(g.MR, h.State) != nil }):
		return Decision{Why: "the approvals that it was open by are finished first", Again: finishAgain}, true
	}
	return Decision{}, false
}

// install masks only a managed resource that is idle: Ready, and Synced with its
// last change observed, which the mask would cut off otherwise (KR-08-18). Unfinished
// approvals of an earlier gate stay recorded.
func (g Managed) install(author []string) Decision {
	synced, _ := g.MR.Condition("Synced")
	seen := synced.ObservedGeneration
	if !g.MR.True("Synced") || !g.MR.True("Ready") || g.asyncPending() || g.MR.Paused || seen > 0 && seen < g.MR.Generation {
		return Decision{Why: "it is not idle yet", Again: 0}
	}
	was := mask.ParseGate(g.MR.Annotations)
	return g.close(author, v1alpha1.Gate{Claim: g.unfinished(was)}, ActionInstall, v1alpha1.GateReasonInstalled)
}

// remask masks the object again, with a set that the provider's older runtime accepts.
func (g Managed) remask(author []string, gate v1alpha1.Gate) Decision {
	gate.Reason = v1alpha1.GateReasonRefused
	if gate.State == v1alpha1.GateOpen {
		return g.stored(ActionOpen, author, gate)
	}
	return g.stored(ActionClose, author, gate)
}

// close closes the gate for a reason. The approvals that the managed resource holds itself are finished
// in the same write; those of other holders afterwards (ClaimToFinish).
func (g Managed) close(author []string, was v1alpha1.Gate, action Action, reason string) Decision {
	was.State, was.Reason, was.At, was.DeleteAt = v1alpha1.GateClosed, reason, approval.Stamp(g.Now), nil
	d := g.stored(action, author, was)
	d.Edits = spendAll(was, g.MR, g.Now) // those that the MR holds itself
	return d
}

// whileOpen decides about an open gate: confirm and close, or wait for the deadline (KR-08-09).
func (g Managed) whileOpen(author []string, gate v1alpha1.Gate) Decision {
	if slices.Contains(gate.Verbs, v1alpha1.VerbDelete) {
		return g.whileOpenForDelete(author, gate)
	}
	why, left := g.unconfirmed(gate), g.left(gate, v1alpha1.VerbUpdate)
	if d, ok := g.letDestroy(author, gate); ok && why != "" {
		return d
	}
	switch grace := min(g.creationGrace(gate), left); {
	case why == "" && grace > 0:
		return Decision{Why: "it has only just become Ready", Again: grace}
	case why == "":
		return g.close(author, gate, ActionClose, v1alpha1.GateReasonConfirmed)
	case g.past(gate, v1alpha1.VerbUpdate), g.noChange(gate):
		return g.close(author, gate, ActionClose, v1alpha1.GateReasonExpired)
	}
	return Decision{Why: why, Again: left}
}

// whileOpenForDelete decides about a gate that is open for Delete. Delete has a deadline of its own, and
// so has what else the gate is open for. The gate is closed separately for the one that ends first.
func (g Managed) whileOpenForDelete(author []string, gate v1alpha1.Gate) Decision {
	rest := notDelete(gate.Verbs)
	confirmed := len(rest) == 0 || g.unconfirmed(gate) == ""
	left := g.left(gate, v1alpha1.VerbDelete)
	over := StillDestroys(g.MR) || left <= 0 // it was approved, and is no longer wanted
	switch {
	case over && (confirmed || g.past(gate, v1alpha1.VerbUpdate)):
		return g.close(author, gate, ActionClose, v1alpha1.GateReasonExpired)
	case over:
		return g.withoutDelete(author, gate, rest, v1alpha1.GateReasonExpired)
	case len(rest) > 0 && confirmed:
		gate.Paths = nil
		return g.narrow(author, gate, []v1alpha1.Verb{v1alpha1.VerbDelete}, v1alpha1.GateReasonConfirmed)
	case len(rest) > 0 && g.past(gate, v1alpha1.VerbUpdate):
		gate.Paths = nil
		return g.narrow(author, gate, []v1alpha1.Verb{v1alpha1.VerbDelete}, v1alpha1.GateReasonExpired)
	case len(rest) > 0:
		left = min(left, g.left(gate, v1alpha1.VerbUpdate))
	}
	return Decision{Why: "it is open for Delete", Again: left}
}

// withoutDelete leaves a gate open for its other verbs when the deadline for Delete
// has passed, or a window has closed. No set of policies holds Delete together with Update, so that Update
// takes effect now, and would apply pending drift as well (KR-08-07).
func (g Managed) withoutDelete(author []string, gate v1alpha1.Gate, rest []v1alpha1.Verb, reason string) Decision {
	gate.DeleteAt = nil
	if len(gate.Paths) > 0 && !g.CarryPendingDrift && len(external.Outside(g.Difference, gate.Paths)) > 0 {
		return g.close(author, gate, ActionClose, v1alpha1.GateReasonPending)
	}
	return g.narrow(author, gate, rest, reason)
}

// creationGrace returns the time that a gate that was opened for a creation stays open once the object
// is Ready. The provider initialises fields late, and what closing writes is not added to what creating
// wrote, which Crossplane's circuit breaker counts together (KR-04-18).
func (g Managed) creationGrace(gate v1alpha1.Gate) time.Duration {
	if !slices.Contains(gate.Verbs, v1alpha1.VerbCreate) {
		return 0
	}
	ready, _ := g.MR.Condition("Ready")
	since := ready.LastTransitionTime
	if since.IsZero() || since.After(g.Now) { // it is the provider's claim
		since = gate.At.Time
	}
	return since.Add(g.CreationGrace).Sub(g.Now)
}

// narrow restricts an open gate to some of its verbs: the change by the others is complete.
func (g Managed) narrow(author []string, gate v1alpha1.Gate, verbs []v1alpha1.Verb, reason string) Decision {
	gate.Verbs, gate.Reason = verbs, reason
	return g.stored(ActionOpen, author, gate)
}

// stored returns the decision to store a gate with its mask. The generation is the one after the
// write, which moves it only where the mask is another one.
func (g Managed) stored(action Action, author []string, gate v1alpha1.Gate) Decision {
	policies := MaskedPolicies(author, gate, g.CloseTo, g.Kind)
	gate.Generation = g.MR.Generation
	if gate.External == nil {
		gate.External = RecordExternal(g.MR.Represents())
	}
	if !slices.Equal(policies, g.MR.ManagementPolicies) {
		gate.Generation++
	}
	gate.Intent = trace.Kept(g.MR, g.MR, gate.Generation)
	return Decision{Action: action, Gate: gate, Author: author, Policies: policies, Annotations: pruned(g.MR.Annotations, gate)}
}
