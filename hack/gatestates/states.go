package gatestates

import (
	"slices"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Status is a state of the gate's machine. It depends on one version of the
// managed resource alone, so that a restarted process finds it again.
type Status string

const (
	// StatusAbsent: there is no MR.
	StatusAbsent Status = "absent"
	// StatusUnmasked: the author's policies are in place. Also an MR in log mode.
	StatusUnmasked Status = "unmasked"
	// StatusPaused: the author's policies are in place, and leave nothing to mask:
	// ["Observe"], [] or without Observe.
	StatusPaused Status = "paused"
	// StatusClosed: closed, and nothing is known to be wrong.
	StatusClosed Status = "closed"
	// StatusHeld: closed, although a change was accepted: the external resource
	// differed elsewhere.
	StatusHeld Status = "held"
	// StatusExpired: closed by its deadline, unconfirmed.
	StatusExpired Status = "expired"
	// StatusOpen: open, and the provider has not reported the opened generation.
	StatusOpen Status = "open"
	// StatusConfirming: open; the provider reported the opened generation, and
	// what else confirms it may be missing.
	StatusConfirming Status = "confirming"
	// StatusDeleting: open for Delete, and perhaps for more.
	StatusDeleting Status = "deleting"
	// StatusTerminating: the MR has a deletionTimestamp. Its policies are left as
	// they are, or the external resource could be orphaned.
	StatusTerminating Status = "terminating"
)

// Mover is who brings a transition about.
type Mover string

const (
	// MoverWebhook: in the very request that brings the cause.
	MoverWebhook Mover = "webhook"
	// MoverGate is the gate controller (gating.Managed.Decide).
	MoverGate Mover = "gate"
	// MoverFunction is the composition function where it masks itself: it uses
	// admission.Evaluator and gating.Managed.Decide as the other two do.
	MoverFunction Mover = "function"
	// MoverProvider: no component of Kausality, but what the provider reports or does.
	MoverProvider Mover = "provider"
)

// Transition is a row of the gate's machine.
type Transition struct {
	From []Status
	To   Status
	// By all of these, each on its own.
	By []Mover
	// Reason in the gate annotation afterwards; empty where there is no reason, or where it stays as it
	// was.
	Reason string
	// When, in the table of docs/gate.md.
	When string
}

func from(s ...Status) []Status { return s }

func by(m ...Mover) []Mover { return m }

var (
	gateClosed = from(StatusClosed, StatusHeld, StatusExpired)
	gateOpen   = from(StatusOpen, StatusConfirming)
	gateMasked = slices.Concat(gateClosed, gateOpen, from(StatusDeleting))
)

// Transitions returns all transitions: TestGateTransitions explores the decisions and finds each of
// these rows and no other. docs/gate.md and its picture are made from here.
func Transitions() []Transition {
	return slices.Concat(gateArrivals(), gateOpenings(), gateClosings(), gateDeletions(), gateLiftings())
}

func gateArrivals() []Transition {
	return []Transition{
		{
			From: from(StatusAbsent), To: StatusOpen, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonCreated,
			When: "the MR is created: open for Create, Update and LateInitialize",
		},
		{
			From: from(StatusAbsent), To: StatusUnmasked, By: by(MoverWebhook, MoverFunction),
			When: "created in log mode",
		},
		{
			From: from(StatusAbsent), To: StatusPaused, By: by(MoverWebhook, MoverFunction),
			When: "created, and its author leaves nothing to mask",
		},
		{
			From: from(StatusUnmasked), To: StatusClosed, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonInstalled,
			When: "it existed before it was guarded: Ready, Synced with its last change, no operation in progress, not paused; at most 10 a second",
		},
		{
			From: from(StatusPaused), To: StatusClosed, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonInstalled,
			When: "its author gives more than Observe",
		},
		{
			From: from(StatusPaused), To: StatusUnmasked, By: by(MoverWebhook, MoverFunction),
			When: "the same, in mode log",
		},
		{
			From: from(StatusUnmasked), To: StatusPaused, By: by(MoverWebhook, MoverFunction),
			When: "its author gives no more than Observe, or pauses it with []",
		},
	}
}

func gateOpenings() []Transition {
	return []Transition{
		{
			From: slices.Concat(from(StatusUnmasked, StatusPaused), gateClosed), To: StatusOpen, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonChanged,
			When: "an accepted change",
		},
		{
			From: slices.Concat(from(StatusUnmasked, StatusPaused), gateClosed), To: StatusHeld, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonPending,
			When: "an accepted change, and the external resource differs elsewhere",
		},
		{
			From: slices.Concat(from(StatusPaused), gateClosed), To: StatusHeld, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonPaused,
			When: "an accepted change, and crossplane.io/paused or [] stops the provider; the gate opens once that has observed the resource again, and " +
				"nothing else differs",
		},
		{
			From: gateOpen, To: StatusOpen, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonChanged,
			When: "another accepted change: verbs and fields add up, the deadline starts again",
		},
		{
			From: from(StatusHeld), To: StatusOpen, By: by(MoverGate), Reason: v1alpha1.GateReasonChanged,
			When: "nothing differs any more but what the accepted change requests, and there is no freeze or rejection",
		},
		{
			From: gateClosed, To: StatusOpen, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonApproved,
			When: "external drift is approved, or an approval matches where nothing can be compared, and there is no freeze or rejection",
		},
		{
			From: from(StatusOpen), To: StatusOpen, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonApproved,
			When: "an approval lets the run of a Workspace destroy, too; the deadline stays",
		},
	}
}

func gateClosings() []Transition {
	return []Transition{
		{
			From: from(StatusOpen), To: StatusConfirming, By: by(MoverProvider),
			When: "Synced is True at the opened generation",
		},
		{
			From: from(StatusConfirming), To: StatusOpen, By: by(MoverProvider),
			When: "Synced is no longer True, or has lost its generation",
		},
		{
			From: gateOpen, To: StatusClosed, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonConfirmed,
			When: "nothing is missing any more (see Confirmed); from open where the provider reports no generation",
		},
		{
			From: gateOpen, To: StatusExpired, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonExpired,
			When: "its deadline, and something is missing",
		},
		{
			From: from(StatusOpen), To: StatusClosed, By: by(MoverGate), Reason: v1alpha1.GateReasonWindow,
			When: "it is open by an approval, a window of an ApprovalRule closes, and the provider has not observed the opening; the approval is not used up",
		},
		{
			From: gateOpen, To: StatusHeld, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonFrozen,
			When: "a freeze begins, unless it is open for Create; what was accepted is carried out when the freeze ends",
		},
		{
			From: gateClosed, To: StatusClosed, By: by(MoverGate), Reason: v1alpha1.GateReasonRefused,
			When: "the provider's older runtime does not know the mask: another one",
		},
		{
			From: gateOpen, To: StatusOpen, By: by(MoverGate), Reason: v1alpha1.GateReasonRefused,
			When: "the same, while it is open",
		},
	}
}

func gateDeletions() []Transition {
	return []Transition{
		{
			From: slices.Concat(gateClosed, gateOpen), To: StatusDeleting, By: by(MoverGate), Reason: v1alpha1.GateReasonApproved,
			When: "the deletion is approved, and there is no freeze or rejection",
		},
		{
			From: slices.Concat(gateClosed, gateOpen), To: StatusDeleting, By: by(MoverFunction), Reason: v1alpha1.GateReasonDeletionApproved,
			When: "the same",
		},
		{
			From: from(StatusDeleting), To: StatusDeleting, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonChanged,
			When: "an accepted change; it waits where no legal set holds both, and Delete keeps its deadline",
		},
		{
			From: from(StatusDeleting), To: StatusDeleting, By: by(MoverWebhook, MoverFunction), Reason: v1alpha1.GateReasonPending,
			When: "an accepted change, and the external resource differs elsewhere: open for Delete alone",
		},
		{
			From: from(StatusDeleting), To: StatusDeleting, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonConfirmed,
			When: "what else it was open for is confirmed",
		},
		{
			From: from(StatusDeleting), To: StatusDeleting, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonExpired,
			When: "what else it was open for met its deadline",
		},
		{
			From: from(StatusDeleting), To: StatusOpen, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonExpired,
			When: "Delete met its deadline, the rest goes on",
		},
		{
			From: from(StatusDeleting), To: StatusClosed, By: by(MoverGate), Reason: v1alpha1.GateReasonWindow,
			When: "a window of an ApprovalRule closes before the MR is deleted; the approval is not used up",
		},
		{
			From: from(StatusDeleting), To: StatusHeld, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonFrozen,
			When: "a freeze begins before the MR is deleted",
		},
		{
			From: from(StatusDeleting), To: StatusOpen, By: by(MoverGate), Reason: v1alpha1.GateReasonWindow,
			When: "the same, the rest goes on",
		},
		{
			From: from(StatusDeleting), To: StatusHeld, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonPending,
			When: "Delete met its deadline, and the rest would apply what differs elsewhere, too",
		},
		{
			From: from(StatusDeleting), To: StatusExpired, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonExpired,
			When: "its deadline, without a deletion of the MR",
		},
		{
			From: slices.Concat(gateMasked, from(StatusUnmasked, StatusPaused)), To: StatusTerminating, By: by(MoverWebhook, MoverFunction),
			When: "a DELETE, or a removal from the Composition, is allowed: the gate is open for it, orphaning is requested, or nothing is masked",
		},
		{
			From: from(StatusTerminating), To: StatusAbsent, By: by(MoverProvider),
			When: "the provider has finished and removes its finalizer",
		},
	}
}

func gateLiftings() []Transition {
	return []Transition{
		{
			From: slices.Concat(from(StatusUnmasked), gateMasked), To: StatusUnmasked, By: by(MoverGate, MoverFunction),
			When: "the mode is log: the author's policies are restored, and the rest of a gate is removed",
		},
		{
			From: slices.Concat(gateOpen, from(StatusDeleting)), To: StatusClosed, By: by(MoverGate, MoverFunction), Reason: v1alpha1.GateReasonRestored,
			When: "the mode is log, and a once approval is to be finished first",
		},
		{
			From: gateMasked, To: StatusUnmasked, By: by(MoverWebhook),
			When: "the mode is log, and the author's value is applied again",
		},
		{
			From: gateMasked, To: StatusPaused, By: by(MoverWebhook, MoverFunction),
			When: "its author gives no more than Observe, or pauses it with []",
		},
	}
}
