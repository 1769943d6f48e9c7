package gating

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Status is a state of the gate's machine. It is read off one version of the
// MR and nothing else: whoever starts anew finds it there.
type Status string

const (
	// StatusAbsent: there is no MR.
	StatusAbsent Status = "absent"
	// StatusUnmasked: the author's policies stand. Also an MR in log mode.
	StatusUnmasked Status = "unmasked"
	// StatusPaused: the author's policies stand, and leave nothing to mask:
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

// StatusOf the gate of an MR; nil is one that does not exist.
func StatusOf(mr *parent.State) Status {
	if mr == nil {
		return StatusAbsent
	}
	_, remembered := mask.ParseAuthor(mr.Annotations[v1alpha1.AnnotationKeyManagementPolicies])
	gate := mask.ParseGate(mr.Annotations)
	switch {
	case mr.Deleting():
		return StatusTerminating
	case !remembered && gated(mr.ManagementPolicies):
		return StatusUnmasked
	case !remembered:
		return StatusPaused
	case gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbDelete):
		return StatusDeleting
	case gate.State == v1alpha1.GateOpen && reported(mr, gate):
		return StatusConfirming
	case gate.State == v1alpha1.GateOpen:
		return StatusOpen
	case gate.Reason == v1alpha1.GateReasonExpired:
		return StatusExpired
	case gate.Reason == v1alpha1.GateReasonPending:
		return StatusHeld
	}
	return StatusClosed
}

// gated reports whether an author's value leaves anything to mask.
func gated(author []string) bool {
	return mask.Maskable(author) && mask.Gives(author, v1alpha1.VerbObserve)
}

// reported: the provider says that it is in step with the opened generation.
func reported(mr *parent.State, gate v1alpha1.Gate) bool {
	c, _ := mr.Condition("Synced")
	return c.Status == metav1.ConditionTrue && c.ObservedGeneration > 0 && c.ObservedGeneration >= gate.Generation
}

// Mover is who brings a transition about.
type Mover string

const (
	// MoverWebhook: in the very request that brings the cause.
	MoverWebhook Mover = "webhook"
	// MoverGate is the gate controller (Managed.Decide).
	MoverGate Mover = "gate"
	// MoverFunction is the composition function where it masks itself: it asks
	// the Evaluator and Managed.Decide as the other two do.
	MoverFunction Mover = "function"
	// MoverProvider: nothing of ours; what the provider reports or does.
	MoverProvider Mover = "provider"
)

// Transition is a row of the gate's machine.
type Transition struct {
	From []Status
	To   Status
	// By all of these, each on its own.
	By []Mover
	// Reason in the gate annotation afterwards; empty where there is none, or
	// where it stays as it was.
	Reason string
	// When, for people.
	When string
}

func from(s ...Status) []Status { return s }

func by(m ...Mover) []Mover { return m }

var (
	gateClosed = from(StatusClosed, StatusHeld, StatusExpired)
	gateOpen   = from(StatusOpen, StatusConfirming)
	gateMasked = slices.Concat(gateClosed, gateOpen, from(StatusDeleting))
)

// Transitions are all there are: TestGateTransitions explores the decisions
// and finds each of these rows and no other. docs/gate.md and its picture are
// made from here.
func Transitions() []Transition {
	return slices.Concat(gateArrivals(), gateOpenings(), gateClosings(), gateDeletions(), gateLiftings())
}

func gateArrivals() []Transition {
	return []Transition{
		{from(StatusAbsent), StatusOpen, by(MoverWebhook, MoverFunction), v1alpha1.GateReasonCreated, "the MR is created: open for Create, Update and LateInitialize"},
		{from(StatusAbsent), StatusUnmasked, by(MoverWebhook, MoverFunction), "", "created in log mode"},
		{from(StatusAbsent), StatusPaused, by(MoverWebhook, MoverFunction), "", "created, and its author leaves nothing to mask"},
		{from(StatusUnmasked), StatusClosed, by(MoverGate, MoverFunction), v1alpha1.GateReasonInstalled, "it was there before us: Ready, Synced with its last change, no operation going on, not paused; at most 10 a second"},
		{from(StatusPaused), StatusUnmasked, by(MoverWebhook, MoverFunction), "", "its author gives more than Observe"},
		{from(StatusUnmasked), StatusPaused, by(MoverWebhook, MoverFunction), "", "its author gives no more than Observe, or pauses it with []"},
	}
}

func gateOpenings() []Transition {
	return []Transition{
		{slices.Concat(from(StatusUnmasked, StatusPaused), gateClosed), StatusOpen, by(MoverWebhook, MoverFunction), v1alpha1.GateReasonChanged, "an accepted change"},
		{slices.Concat(from(StatusUnmasked, StatusPaused), gateClosed), StatusHeld, by(MoverWebhook, MoverFunction), v1alpha1.GateReasonPending, "an accepted change, and the external resource differs elsewhere"},
		{gateOpen, StatusOpen, by(MoverWebhook, MoverFunction), v1alpha1.GateReasonChanged, "another accepted change: verbs and fields add up, the deadline counts anew"},
		{gateClosed, StatusOpen, by(MoverGate, MoverFunction), v1alpha1.GateReasonApproved, "external drift is approved, and nobody froze or rejected it"},
	}
}

func gateClosings() []Transition {
	return []Transition{
		{from(StatusOpen), StatusConfirming, by(MoverProvider), "", "Synced is True at the opened generation"},
		{from(StatusConfirming), StatusOpen, by(MoverProvider), "", "Synced is no longer True, or has lost its generation"},
		{gateOpen, StatusClosed, by(MoverGate, MoverFunction), v1alpha1.GateReasonConfirmed, "nothing is missing any more (see Confirmed); from open where the provider reports no generation"},
		{gateOpen, StatusExpired, by(MoverGate, MoverFunction), v1alpha1.GateReasonExpired, "its deadline, and something is missing"},
		{gateClosed, StatusClosed, by(MoverGate), v1alpha1.GateReasonRefused, "the provider's older runtime does not know the mask: another one"},
		{gateOpen, StatusOpen, by(MoverGate), v1alpha1.GateReasonRefused, "the same, while it is open"},
	}
}

func gateDeletions() []Transition {
	return []Transition{
		{slices.Concat(gateClosed, gateOpen), StatusDeleting, by(MoverGate), v1alpha1.GateReasonApproved, "the deletion is approved, and nobody froze or rejected it"},
		{slices.Concat(gateClosed, gateOpen), StatusDeleting, by(MoverFunction), v1alpha1.GateReasonDeletionApproved, "the same"},
		{from(StatusDeleting), StatusDeleting, by(MoverWebhook, MoverFunction), v1alpha1.GateReasonChanged, "an accepted change; it waits where no legal set holds both, and Delete keeps its deadline"},
		{from(StatusDeleting), StatusDeleting, by(MoverWebhook, MoverFunction), v1alpha1.GateReasonPending, "an accepted change, and the external resource differs elsewhere: open for Delete alone"},
		{from(StatusDeleting), StatusDeleting, by(MoverGate, MoverFunction), v1alpha1.GateReasonConfirmed, "what else it was open for is confirmed"},
		{from(StatusDeleting), StatusDeleting, by(MoverGate, MoverFunction), v1alpha1.GateReasonExpired, "what else it was open for met its deadline"},
		{from(StatusDeleting), StatusOpen, by(MoverGate, MoverFunction), v1alpha1.GateReasonExpired, "Delete met its deadline, the rest goes on"},
		{from(StatusDeleting), StatusHeld, by(MoverGate, MoverFunction), v1alpha1.GateReasonPending, "Delete met its deadline, and the rest would carry along what differs elsewhere"},
		{from(StatusDeleting), StatusExpired, by(MoverGate, MoverFunction), v1alpha1.GateReasonExpired, "its deadline, and nobody deleted the MR"},
		{slices.Concat(gateMasked, from(StatusUnmasked, StatusPaused)), StatusTerminating, by(MoverWebhook, MoverFunction), "", "a DELETE, or a removal from the Composition, is let through: the gate is open for it, or somebody asked for orphaning, or there is nothing of ours to lose"},
		{from(StatusTerminating), StatusAbsent, by(MoverProvider), "", "the provider is done and takes its finalizer away"},
	}
}

func gateLiftings() []Transition {
	return []Transition{
		{slices.Concat(from(StatusUnmasked), gateMasked), StatusUnmasked, by(MoverGate, MoverFunction), "", "the mode is log: the author's policies are restored, and what is left of a gate goes"},
		{slices.Concat(gateOpen, from(StatusDeleting)), StatusClosed, by(MoverGate, MoverFunction), v1alpha1.GateReasonRestored, "the mode is log, and a once approval is to be finished first"},
		{gateMasked, StatusUnmasked, by(MoverWebhook), "", "the mode is log, and the author's value is applied again"},
		{gateMasked, StatusPaused, by(MoverWebhook, MoverFunction), "", "its author gives no more than Observe, or pauses it with []"},
	}
}
