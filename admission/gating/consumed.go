package gating

import (
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// ExternallySettledAt returns the generation up to which the allowances of a
// managed resource are consumed, because its external work is done: its gate
// closed again, or, without a gate, its status reports so. -1 where it is not done,
// or the gate is kept closed for another difference. s is its state, annotations
// are the stored ones.
func ExternallySettledAt(annotations map[string]string, s *parent.State) int64 {
	gate := mask.ParseGate(annotations)
	if gate.State == "" && s.Converged && s.HasObserved {
		return s.ObservedGeneration
	}
	return closedAt(gate)
}

// closedAt returns the generation at which a gate closed after its work was done; -1 where it did not.
func closedAt(gate v1alpha1.Gate) int64 {
	if gate.State != v1alpha1.GateClosed || withholds(gate) {
		return -1
	}
	return gate.Generation
}

// pruned returns the edits that remove from a managed resource the allowances that
// its closing gate consumes; nil for none.
func pruned(annotations map[string]string, gate v1alpha1.Gate) map[string]*string {
	entries, err := allowance.Parse(annotations[v1alpha1.AnnotationKeyAllowances])
	if err != nil {
		return nil // the next change replaces them, with a warning
	}
	kept := entries.Live(closedAt(gate))
	switch len(kept) {
	case len(entries):
		return nil
	case 0:
		return map[string]*string{v1alpha1.AnnotationKeyAllowances: nil}
	}
	value := kept.String()
	return map[string]*string{v1alpha1.AnnotationKeyAllowances: &value}
}
