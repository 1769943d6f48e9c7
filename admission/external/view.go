package external

import (
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// State of the gate of an object, as the object is stored.
type State string

const (
	// StateFree: there is no gate to keep. Its author lets nothing through that
	// nobody asked for, or asked for everything.
	StateFree State = "free"
	// StateClosed: nothing goes through.
	StateClosed State = "closed"
	// StateOpen: what is next goes through.
	StateOpen State = "open"
)

// View of an object that stands for something in an external system: what the
// object says, as it is stored, and nothing that was decided.
type View struct {
	State State
	// Why it is StateFree, for people; empty otherwise.
	Why string
	// Masked: the object remembers its author's value.
	Masked bool
	// Idle: nothing goes on outside and nothing is about to, so that closing
	// cuts nothing off.
	Idle bool
	// Difference between what is there and what the system would make of it, as
	// far as the object tells; nil for none.
	Difference []change.Change
	// Known: the object tells whether there is a difference. Where it is false,
	// a nil Difference means nothing.
	Known bool
	// Foreign: the difference is not about a change of the object alone.
	Foreign bool
	// Current: the difference is about the object as it is now.
	Current bool
	// Verbs, in the system's own words, that removing the difference takes.
	Verbs []v1alpha1.Verb
	// Busy tells why nothing can be opened right now; empty where it can.
	Busy string
	// Unconfirmed tells what is missing until what the gate was opened for is
	// done; empty where it is done. It says something only while the gate is
	// open.
	Unconfirmed string
	// Over tells why what the gate was opened for will not be done any more, for
	// the gate's reason; empty where it may.
	Over string
}

// Reasons for which an opening is over.
const (
	// OverSuperseded: what was opened for is no longer what is next.
	OverSuperseded = "Superseded"
	// OverFailed: it was tried and given up.
	OverFailed = "Failed"
)
