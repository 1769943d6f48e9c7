package gating

import (
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// RecordExternal returns the external resource as a gate records it; nil for the empty one.
func RecordExternal(e parent.External) *v1alpha1.GateExternal {
	if e == "" {
		return nil
	}
	return &v1alpha1.GateExternal{Name: e.Name(), Config: e.Config()}
}

// recorded returns the external resource that a gate has recorded; empty where it has none.
func recorded(gate v1alpha1.Gate) parent.External {
	if gate.External == nil {
		return ""
	}
	return parent.NewExternal(gate.External.Name, gate.External.Config)
}

// Retargeted reports whether a managed resource represents another external resource
// than the one that its gate was last opened or closed for. What was approved or
// accepted before is not about this one (KR-13-18).
func Retargeted(mr *parent.State) bool { return retargeted(mask.ParseGate(mr.Annotations), mr) }

func retargeted(gate v1alpha1.Gate, mr *parent.State) bool {
	return gate.External != nil && recorded(gate) != mr.Represents()
}

// Retarget returns the gate after an accepted change that points its managed resource at another
// external resource: closed, with the one that was before on record. What differs there is not known
// yet. was is that resource, at the time of the change.
func Retarget(gate v1alpha1.Gate, was parent.External, generation int64, at time.Time) v1alpha1.Gate {
	if gate.External == nil {
		gate.External = &v1alpha1.GateExternal{Name: was.Name(), Config: was.Config()}
	}
	gate.State, gate.Reason, gate.DeleteAt = v1alpha1.GateClosed, v1alpha1.GateReasonPending, nil
	gate.Observed, gate.Paths = nil, nil // what was accepted before was about the other one
	gate.Generation, gate.At = generation, approval.Stamp(at)
	return gate
}

// Named returns a gate that is open to create an external resource, with the name that the resource now has on record; named is
// false where the gate stays as it is. object is the name of the managed resource.
func Named(gate v1alpha1.Gate, is parent.External, object string) (next v1alpha1.Gate, named bool) {
	was := recorded(gate)
	if gate.State != v1alpha1.GateOpen || !slices.Contains(gate.Verbs, v1alpha1.VerbCreate) || was == is || !was.Names(is, object) {
		return gate, false
	}
	gate.External = RecordExternal(is)
	return gate, true
}

// whileRetargeted closes an open gate, unless its provider named what it creates. ok is
// false where nothing is to be done about it. The record may be behind only where the
// webhook did not see the change (KR-13-18).
func (g Managed) whileRetargeted(author []string, gate v1alpha1.Gate) (d Decision, ok bool) {
	if next, named := Named(gate, g.MR.Represents(), g.MR.Name); named {
		return g.stored(ActionOpen, author, next), true
	}
	switch {
	case !retargeted(gate, g.MR):
		return Decision{}, false
	case gate.State == v1alpha1.GateOpen:
		gate.Observed, gate.Paths = nil, nil
		d = g.close(author, gate, ActionClose, v1alpha1.GateReasonPending)
		d.Gate.External = gate.External
		return d, true
	}
	return Decision{}, false
}

// settleRetargeted accepts the external resource of a closed gate that shows no
// difference: the provider has observed it since, or had the time to.
func (g Managed) settleRetargeted(author []string, gate v1alpha1.Gate) Decision {
	if !g.past(gate, v1alpha1.VerbUpdate) && !g.lookedSince(gate) {
		return Decision{Why: "the provider has not reported the external resource that it was pointed at", Again: g.left(gate, v1alpha1.VerbUpdate)}
	}
	gate.External, gate.Observed = RecordExternal(g.MR.Represents()), nil
	return g.close(author, gate, ActionClose, v1alpha1.GateReasonConfirmed)
}

// lookedSince reports whether the provider handled a reconcile that was requested with
// the last transition of a gate, and compared.
func (g Managed) lookedSince(gate v1alpha1.Gate) bool {
	requested, err := time.Parse(time.RFC3339Nano, g.RequestedAt)
	return err == nil && g.Comparable && g.Kind.ReconcileRequests && g.HandledAt == g.RequestedAt && !requested.Before(gate.At.Time)
}
