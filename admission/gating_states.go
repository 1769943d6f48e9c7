package admission

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// GateStatus is a state of the gate's machine. It is read off one version of the
// MR and nothing else: whoever starts anew finds it there.
type GateStatus string

const (
	// GateAbsent: there is no MR.
	GateAbsent GateStatus = "absent"
	// GateUnmasked: the author's policies stand. Also an MR in log mode.
	GateUnmasked GateStatus = "unmasked"
	// GatePaused: the author's policies stand, and leave nothing to mask:
	// ["Observe"], [] or without Observe.
	GatePaused GateStatus = "paused"
	// GateShut: closed, and nothing is known to be wrong.
	GateShut GateStatus = "closed"
	// GateHeld: closed, although a change was accepted: the external resource
	// differed elsewhere.
	GateHeld GateStatus = "held"
	// GateExpired: closed by its deadline, unconfirmed.
	GateExpired GateStatus = "expired"
	// GateOpened: open, and the provider has not reported the opened generation.
	GateOpened GateStatus = "open"
	// GateConfirming: open; the provider reported the opened generation, and
	// what else confirms it may be missing.
	GateConfirming GateStatus = "confirming"
	// GateDeleting: open for Delete, and perhaps for more.
	GateDeleting GateStatus = "deleting"
	// GateTerminating: the MR has a deletionTimestamp. Its policies are left as
	// they are, or the external resource could be orphaned.
	GateTerminating GateStatus = "terminating"
)

// StatusOf the gate of an MR; nil is one that does not exist.
func StatusOf(mr *parent.State) GateStatus {
	if mr == nil {
		return GateAbsent
	}
	_, remembered := mask.ParseAuthor(mr.Annotations[v1alpha1.AnnotationKeyManagementPolicies])
	gate := mask.ParseGate(mr.Annotations)
	switch {
	case mr.Deleting():
		return GateTerminating
	case !remembered && gated(mr.ManagementPolicies):
		return GateUnmasked
	case !remembered:
		return GatePaused
	case gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbDelete):
		return GateDeleting
	case gate.State == v1alpha1.GateOpen && reported(mr, gate):
		return GateConfirming
	case gate.State == v1alpha1.GateOpen:
		return GateOpened
	case gate.Reason == GateReasonExpired:
		return GateExpired
	case gate.Reason == GateReasonPending:
		return GateHeld
	}
	return GateShut
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

// GateMover is who brings a transition about.
type GateMover string

const (
	// MoverWebhook: in the very request that brings the cause.
	MoverWebhook GateMover = "webhook"
	// MoverGate is the gate controller (Gating.Decide).
	MoverGate GateMover = "gate"
	// MoverFunction is the composition function where it masks itself: it asks
	// Evaluator and Gating.Decide as the other two do.
	MoverFunction GateMover = "function"
	// MoverProvider: nothing of ours; what the provider reports or does.
	MoverProvider GateMover = "provider"
)

// GateTransition is a row of the gate's machine.
type GateTransition struct {
	From []GateStatus
	To   GateStatus
	By   GateMover
	// Reason in the gate annotation afterwards; empty where there is none, or
	// where it stays as it was.
	Reason string
	// When, for people.
	When string
}

func from(s ...GateStatus) []GateStatus { return s }

var (
	gateClosed = from(GateShut, GateHeld, GateExpired)
	gateOpen   = from(GateOpened, GateConfirming)
	gateMasked = slices.Concat(gateClosed, gateOpen, from(GateDeleting))
)

// GateTransitions are all there are: TestGateTransitions explores the decisions
// and finds each of these rows and no other. docs/gate.md and its picture are
// made from here.
func GateTransitions() []GateTransition {
	return slices.Concat(gateArrivals(), gateOpenings(), gateClosings(), gateDeletions(), gateLiftings())
}

func gateArrivals() []GateTransition {
	return []GateTransition{
		{from(GateAbsent), GateOpened, MoverWebhook, GateReasonCreated, "the MR is created: open for Create, Update and LateInitialize"},
		{from(GateAbsent), GateUnmasked, MoverWebhook, "", "created in log mode"},
		{from(GateAbsent), GatePaused, MoverWebhook, "", "created, and its author leaves nothing to mask"},
		{from(GateUnmasked), GateShut, MoverGate, GateReasonInstalled, "it was there before us: Ready, Synced with its last change, no operation going on, not paused; at most 10 a second"},
		{from(GatePaused), GateUnmasked, MoverWebhook, "", "its author gives more than Observe"},
		{from(GateUnmasked), GatePaused, MoverWebhook, "", "its author gives no more than Observe, or pauses it with []"},
	}
}

func gateOpenings() []GateTransition {
	return []GateTransition{
		{slices.Concat(from(GateUnmasked, GatePaused), gateClosed), GateOpened, MoverWebhook, GateReasonChanged, "an accepted change"},
		{slices.Concat(from(GateUnmasked, GatePaused), gateClosed), GateHeld, MoverWebhook, GateReasonPending, "an accepted change, and the external resource differs elsewhere"},
		{gateOpen, GateOpened, MoverWebhook, GateReasonChanged, "another accepted change: verbs and fields add up, the deadline counts anew"},
		{gateClosed, GateOpened, MoverGate, GateReasonApproved, "external drift is approved, and nobody froze or rejected it"},
	}
}

func gateClosings() []GateTransition {
	return []GateTransition{
		{from(GateOpened), GateConfirming, MoverProvider, "", "Synced is True at the opened generation"},
		{from(GateConfirming), GateOpened, MoverProvider, "", "Synced is no longer True, or has lost its generation"},
		{gateOpen, GateShut, MoverGate, GateReasonConfirmed, "nothing is missing any more (see Confirmed); from open where the provider reports no generation"},
		{gateOpen, GateExpired, MoverGate, GateReasonExpired, "its deadline, and something is missing"},
		{gateClosed, GateShut, MoverGate, GateReasonRefused, "the provider's older runtime does not know the mask: another one"},
		{gateOpen, GateOpened, MoverGate, GateReasonRefused, "the same, while it is open"},
	}
}

func gateDeletions() []GateTransition {
	return []GateTransition{
		{slices.Concat(gateClosed, gateOpen), GateDeleting, MoverGate, GateReasonApproved, "the deletion is approved, and nobody froze or rejected it"},
		{from(GateDeleting), GateDeleting, MoverWebhook, GateReasonChanged, "an accepted change; it waits where no legal set holds both, and Delete keeps its deadline"},
		{from(GateDeleting), GateDeleting, MoverWebhook, GateReasonPending, "an accepted change, and the external resource differs elsewhere: open for Delete alone"},
		{from(GateDeleting), GateDeleting, MoverGate, GateReasonConfirmed, "what else it was open for is confirmed"},
		{from(GateDeleting), GateDeleting, MoverGate, GateReasonExpired, "what else it was open for met its deadline"},
		{from(GateDeleting), GateOpened, MoverGate, GateReasonExpired, "Delete met its deadline, the rest goes on"},
		{from(GateDeleting), GateHeld, MoverGate, GateReasonPending, "Delete met its deadline, and the rest would carry along what differs elsewhere"},
		{from(GateDeleting), GateExpired, MoverGate, GateReasonExpired, "its deadline, and nobody deleted the MR"},
		{slices.Concat(gateMasked, from(GateUnmasked, GatePaused)), GateTerminating, MoverWebhook, "", "a DELETE is let through: the gate is open for it, or somebody asked for orphaning, or there is nothing of ours to lose"},
		{from(GateTerminating), GateAbsent, MoverProvider, "", "the provider is done and takes its finalizer away"},
	}
}

func gateLiftings() []GateTransition {
	return []GateTransition{
		{slices.Concat(from(GateUnmasked), gateMasked), GateUnmasked, MoverGate, "", "the mode is log: the author's policies are restored, and what is left of a gate goes"},
		{slices.Concat(gateOpen, from(GateDeleting)), GateShut, MoverGate, GateReasonRestored, "the mode is log, and a once approval is to be finished first"},
		{gateMasked, GateUnmasked, MoverWebhook, "", "the mode is log, and the author's value is applied again"},
		{gateMasked, GatePaused, MoverWebhook, "", "its author gives no more than Observe, or pauses it with []"},
	}
}
