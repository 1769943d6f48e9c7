package gating

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// DefaultDeadline after which an unconfirmed opening is closed.
const DefaultDeadline = time.Hour

// DeadlineOf returns the deadline of openings under the settings of a policy.
func DeadlineOf(s settings.Settings, d Defaults) time.Duration {
	switch {
	case s.Deadline > 0:
		return s.Deadline
	case d.Deadline > 0:
		return d.Deadline
	}
	return DefaultDeadline
}

// The rule about the deadline of openings (KR-08-09) is left and past: the gate, the function, the audit and the plugin decide by them, through
// Decide and Expired.

// left returns the time until the deadline of an opening. Where none is left, the deadline has passed.
func (g Managed) left(opened metav1.Time) time.Duration {
	return opened.Add(g.Deadline).Sub(g.Now)
}

// past reports whether the deadline of an opening has passed.
func (g Managed) past(opened metav1.Time) bool { return g.left(opened) <= 0 }

// Expired reports whether the deadline of a gate that is open has passed, for one of its verbs at least: Delete has one of its own. It is for
// who looks at a gate and does not decide about it; the gate itself goes on to the verbs that are left, by past.
func (g Managed) Expired(gate v1alpha1.Gate) bool {
	if gate.State != v1alpha1.GateOpen {
		return false
	}
	deletes, more := slices.Contains(gate.Verbs, v1alpha1.VerbDelete), len(notDelete(gate.Verbs)) > 0
	return deletes && g.past(DeletionOpenedAt(gate)) || more && g.past(gate.At)
}
