package gating

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// DefaultDeadline after which an unconfirmed opening is closed.
const DefaultDeadline = time.Hour

// DeadlineOf returns the deadline of openings under the settings of a policy.
func DeadlineOf(s settings.Settings, d Defaults) time.Duration {
	return cmp.Or(max(s.Deadline, 0), max(d.Deadline, 0), DefaultDeadline)
}

// EndOf returns when an opening ends for a verb, unless it is confirmed before (KR-08-09). Gate, function, audit and plugin decide by it. Delete is
// counted from when the gate was opened for it.
func EndOf(gate v1alpha1.Gate, verb v1alpha1.Verb, deadline time.Duration) time.Time {
	opened := gate.At
	if verb == v1alpha1.VerbDelete {
		opened = DeletionOpenedAt(gate)
	}
	return opened.Add(deadline)
}

// DeletionOpenedAt returns when a gate that is open for Delete was opened for it.
func DeletionOpenedAt(gate v1alpha1.Gate) metav1.Time { return ptr.Deref(gate.DeleteAt, gate.At) }

// LastEndOf returns the last EndOf a verb that a gate is open for.
func LastEndOf(gate v1alpha1.Gate, deadline time.Duration) (last time.Time) {
	if len(gate.Verbs) == 0 {
		return gate.At.Add(deadline)
	}
	for _, v := range gate.Verbs {
		if end := EndOf(gate, v, deadline); end.After(last) {
			last = end
		}
	}
	return last
}

// left returns the time until an opening ends for a verb; none or less where it has ended.
func (g Managed) left(gate v1alpha1.Gate, verb v1alpha1.Verb) time.Duration {
	return EndOf(gate, verb, g.Deadline).Sub(g.Now)
}

// past reports whether an opening has ended for a verb.
func (g Managed) past(gate v1alpha1.Gate, verb v1alpha1.Verb) bool { return g.left(gate, verb) <= 0 }

// Expired reports whether an open gate has ended for one of its verbs at least. It is for who looks at a gate and does not decide about it; the
// gate itself goes on to the verbs that are left.
func (g Managed) Expired(gate v1alpha1.Gate) bool {
	return gate.State == v1alpha1.GateOpen && slices.ContainsFunc(gate.Verbs, func(v v1alpha1.Verb) bool { return g.past(gate, v) })
}
