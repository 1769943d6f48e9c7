package external

import (
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// State of the gate of an object, as the object is stored.
type State string

const (
	// StateFree: there is no gate to keep. Its author lets nothing unrequested
	// through, or lets everything through.
	StateFree State = "free"
	// StateClosed: nothing goes through.
	StateClosed State = "closed"
	// StateOpen: the next change goes through.
	StateOpen State = "open"
)

// View of an object that represents something in an external system: the state
// that is stored in the object, without any decision.
type View struct {
	State State
	// Why it is StateFree, as text; empty otherwise.
	Why string
	// Masked: the object remembers its author's value.
	Masked bool
	// Idle: no external operation is in progress or about to start, so that closing interrupts nothing.
	Idle bool
	// Difference between the observed state and the one that the system would lead to, as far as the object reports it;
	// nil where there is no difference.
	Difference []change.Change
	// Known: the object reports whether there is a difference. Where it is false,
	// a nil Difference means nothing.
	Known bool
	// Foreign: the difference is not about a change of the object alone.
	Foreign bool
	// Current: the difference is about the object as it is now.
	Current bool
	// Verbs of the system that removing the difference takes.
	Verbs []v1alpha1.Verb
	// Busy is the reason why nothing can be opened right now; empty where it can.
	Busy string
	// Unconfirmed is what is missing until the change that the gate was opened for
	// is carried out; empty where it is. It has a meaning only while the gate is
	// open.
	Unconfirmed string
	// Over is the reason why the change that the gate was opened for will not be
	// carried out any more, for the gate annotation; empty where it may be.
	Over string
}

// Reasons for which an opening is over.
const (
	// OverSuperseded: the change that the gate was opened for is no longer the next one.
	OverSuperseded = "Superseded"
	// OverFailed: it was tried and given up.
	OverFailed = "Failed"
)
