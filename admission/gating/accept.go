package gating

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// MaskedPolicies returns the value of spec.managementPolicies under a gate.
// closeTo are the verbs of a closed gate beside Observe.
func MaskedPolicies(author []string, gate v1alpha1.Gate, closeTo []v1alpha1.Verb, kind identity.Kind) []string {
	if gate.State != v1alpha1.GateOpen {
		return mask.Policies(author, closeTo, kind.Runtime)
	}
	return mask.Policies(author, gate.Verbs, kind.Runtime)
}

// Acceptance is an accepted change of a managed resource, which opens its gate in
// the write that brings it.
type Acceptance struct {
	// Gate in its stored state; the zero Gate on creation.
	Gate v1alpha1.Gate
	// Create: the change creates the managed resource.
	Create bool
	// Verbs that the change opens the gate for; ignored on creation.
	Verbs []v1alpha1.Verb
	// Destroys as in Gate.
	Destroys bool
	// Paths that the change changes.
	Paths []string
	// Generation after the write.
	Generation int64
	Time       time.Time
	// Difference of the external resource: by its spec after the change where
	// Extends, before it otherwise. Not read on creation, nor where pending drift is
	// carried.
	Difference []change.Change
	// Paused: the provider has stopped, so that Difference may be an earlier one.
	Paused bool
	// CarryPendingDrift opens the gate even if the external resource differs
	// outside of Paths.
	CarryPendingDrift bool
}

// Extends reports whether the gate is open for more than Delete, so that the change
// adds to an opening.
func (a Acceptance) Extends() bool {
	return !a.Create && a.Gate.State == v1alpha1.GateOpen && !onlyDelete(a.Gate)
}

// Transition returns the gate after the change. pending is the difference outside
// of the change that keeps the gate closed; empty where it opens, or is paused (KR-08-06, KR-08-07, KR-08-72).
func (a Acceptance) Transition() (next v1alpha1.Gate, pending []change.Change) {
	at := approval.Stamp(a.Time)
	a.Gate.Intent = 0 // the change is one
	next = v1alpha1.Gate{State: v1alpha1.GateOpen, At: at, Generation: a.Generation,
		Claim: a.Gate.Claim, Opened: a.Gate.Opened} // the approvals it is open by stay recorded until they are finished
	if a.Create {
		next.Verbs = []v1alpha1.Verb{v1alpha1.VerbCreate, v1alpha1.VerbUpdate, v1alpha1.VerbLateInitialize}
		next.Reason = v1alpha1.GateReasonCreated
		return next, nil
	}
	next.Reason, next.Verbs, next.Paths, next.Destroys = v1alpha1.GateReasonChanged, a.Verbs, a.Paths, a.Destroys
	if paths, verbs := awaiting(a.Gate); len(paths) > 0 { // what was accepted before is still to be carried out
		next.Paths, next.Verbs, next.Destroys = union(paths, a.Paths), union(verbs, a.Verbs), a.Destroys && a.Gate.Destroys
	}
	open := a.Gate.State == v1alpha1.GateOpen
	if a.Extends() {
		next = extend(a.Gate, next)
		next.Unproven = len(within(a.Difference, next.Paths)) == 0
		return next, nil
	}
	if !a.CarryPendingDrift {
		pending = external.Outside(a.Difference, next.Paths)
	}
	switch {
	case len(pending) > 0 && open: // it stays open for Delete alone
		gate := a.Gate
		gate.Reason, gate.Generation = v1alpha1.GateReasonPending, a.Generation
		return gate, pending
	case len(pending) > 0:
		next.State, next.Reason, next.Observed = v1alpha1.GateClosed, v1alpha1.GateReasonPending, a.Gate.Observed
		return next, pending
	case open:
		return extend(a.Gate, next), nil
	case a.Paused:
		next.State, next.Reason, next.Observed = v1alpha1.GateClosed, v1alpha1.GateReasonPaused, a.Gate.Observed
	}
	return next, nil
}

// awaiting returns the paths of accepted changes that a closed gate withholds, with the verbs that
// carry them out; nil where none are recorded, as in gates of older versions.
func awaiting(gate v1alpha1.Gate) (paths []string, verbs []v1alpha1.Verb) {
	if !withholds(gate) {
		return nil, nil
	}
	return gate.Paths, slices.DeleteFunc(notDelete(gate.Verbs), func(v v1alpha1.Verb) bool { return v == v1alpha1.VerbCreate })
}

// onlyDelete reports whether a gate is open for Delete and nothing else.
func onlyDelete(gate v1alpha1.Gate) bool {
	return !slices.ContainsFunc(gate.Verbs, func(v v1alpha1.Verb) bool { return v != v1alpha1.VerbDelete })
}

// extend adds to an open gate what an accepted change opens.
func extend(gate, next v1alpha1.Gate) v1alpha1.Gate {
	if slices.Contains(gate.Verbs, v1alpha1.VerbDelete) {
		at := DeletionOpenedAt(gate) // a change does not prolong the opening for Delete
		next.DeleteAt = &at
	}
	next.Verbs, next.Digest = union(gate.Verbs, next.Verbs), gate.Digest
	next.Destroys = next.Destroys && (gate.Destroys || onlyDelete(gate)) // one run carries out both changes
	switch {
	case len(gate.Paths) > 0:
		next.Paths = union(gate.Paths, next.Paths)
	case !onlyDelete(gate):
		next.Paths = nil // all paths stay allowed
	}
	return next
}

func union[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// Lifted returns the gate annotation that remains when the mask is removed: nil
// for none, or a closed gate while approvals that it was open by may not be
// finished. The gate controller finishes them and removes it. value is the stored
// annotation, generation that after the write.
func Lifted(value string, generation int64, now time.Time) *string {
	gate := mask.ParseGate(map[string]string{v1alpha1.AnnotationKeyGate: value})
	switch {
	case gate.Claim == "":
		return nil
	case gate.State != v1alpha1.GateOpen:
		return &value
	}
	gate.State, gate.Reason = v1alpha1.GateClosed, v1alpha1.GateReasonRestored
	gate.Generation, gate.Intent, gate.At = generation, 0, approval.Stamp(now)
	text := mask.FormatGate(gate)
	return &text
}
