package gating

import (
	"slices"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// frozenOpen closes an open gate while a freeze is in force (KR-14-42), unless its work is done already. What is being created is
// finished: half of it would be left behind. Paths of accepted changes stay recorded, and the gate opens for them when the freeze
// ends. An approval opens it again, too, if the provider has begun nothing; else it is used up, since what differs may be
// something else by then.
func (g Managed) frozenOpen(author []string, gate v1alpha1.Gate) (Decision, bool) {
	if gate.State != v1alpha1.GateOpen || slices.Contains(gate.Verbs, v1alpha1.VerbCreate) || g.frozen() == nil ||
		!onlyDelete(gate) && g.unconfirmed(gate) == "" {
		return Decision{}, false
	}
	if len(byApproval(gate)) > 0 {
		if onlyDelete(gate) || !slices.Contains(gate.Verbs, v1alpha1.VerbDelete) && !g.begun(gate) {
			gate.Claim = "" // it opened nothing that was carried out
		}
		gate.Paths = nil
	}
	return g.close(author, gate, ActionClose, v1alpha1.GateReasonFrozen), true
}

// withholds reports whether a gate is closed before what it was opened for, or was to be, is carried out.
func withholds(gate v1alpha1.Gate) bool {
	switch gate.Reason {
	case v1alpha1.GateReasonPending, v1alpha1.GateReasonFrozen, v1alpha1.GateReasonPaused:
		return gate.State == v1alpha1.GateClosed
	}
	return false
}
