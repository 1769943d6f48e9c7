package drift

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// owing returns the entries of an occurrence that no receiver was sent yet.
func owing(receivers []string, since *metav1.Time) []v1alpha1.DriftDelivery {
	var out []v1alpha1.DriftDelivery
	for _, n := range receivers {
		out = append(out, v1alpha1.DriftDelivery{Receiver: n, Since: since})
	}
	return out
}

// deliveryTo returns the entry of a receiver about this occurrence of a drift; nil for none.
func deliveryTo(s *v1alpha1.DriftStatus, receiver string) *v1alpha1.DriftDelivery {
	for i := range s.Deliveries {
		if e := &s.Deliveries[i]; e.Receiver == receiver && e.Since.Equal(s.Since) {
			return e
		}
	}
	return nil
}

// anyOwed reports whether a receiver that a Drift names is to be sent something.
func anyOwed(s *v1alpha1.DriftStatus) bool {
	return slices.ContainsFunc(s.Deliveries, func(e v1alpha1.DriftDelivery) bool { return len(owed(s, e.Receiver)) > 0 })
}

// owed returns the phases of a drift that a receiver is to be sent, in their order (KR-10-14). A receiver gets
// Resolved after Detected, and neither for an occurrence that was snoozed until its end (KR-10-15). A new receiver gets
// what is open.
func owed(s *v1alpha1.DriftStatus, receiver string) []v1alpha1.DriftPhase {
	if s.Since == nil || s.Snoozed {
		return nil
	}
	phases := []v1alpha1.DriftPhase{v1alpha1.DriftDetected}
	if s.BrokenGlass != nil {
		phases = append(phases, v1alpha1.DriftBrokenGlass)
	}
	if s.Phase == v1alpha1.DriftResolved {
		phases = append(phases, v1alpha1.DriftResolved)
	}
	e := deliveryTo(s, receiver)
	switch {
	case s.Phase != v1alpha1.DriftDetected && s.Phase != v1alpha1.DriftResolved, e == nil && s.Phase == v1alpha1.DriftResolved:
		return nil
	case e == nil:
		return phases
	}
	known := slices.Index(phases, e.Phase) // -1 for a phase of an earlier occurrence
	if known+1 == len(phases) {
		return nil
	}
	return phases[known+1:]
}
