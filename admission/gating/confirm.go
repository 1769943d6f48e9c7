package gating

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// unconfirmed returns what is missing until the opened generation is confirmed
// (KR-08-08), as a clause; "" where it is confirmed.
func (g Managed) unconfirmed(gate v1alpha1.Gate) string {
	synced, _ := g.MR.Condition("Synced")
	seen := g.seen(synced)
	switch {
	case synced.Status != metav1.ConditionTrue:
		return "Synced is not True"
	case seen > 0 && seen < gate.Generation:
		return fmt.Sprintf("the provider has not seen generation %d yet", gate.Generation)
	case g.asyncPending():
		return "an asynchronous operation is pending or failed"
	case g.Kind.ReconcileRequests && g.RequestedAt != "" && g.HandledAt != g.RequestedAt:
		return "the provider has not handled a reconcile since"
	case seen == 0 && !g.Kind.ReconcileRequests && !g.Comparable:
		return "the provider reports neither the generation it has observed nor its external state" // upjet can lose the generation for good
	case seen == 0 && !g.Kind.ReconcileRequests && gate.Unproven:
		return "the last requested value equals the external one, and the provider does not report whether it has observed the request"
	case slices.Contains(gate.Verbs, v1alpha1.VerbCreate) && !g.MR.True("Ready"):
		return "it is not Ready yet"
	}
	if left := within(g.Difference, gate.Paths); len(left) > 0 {
		return "the external resource still differs: " + change.Summary(left, 5)
	}
	return ""
}

// seen returns the generation that a condition reports as observed; 0 where it reports none, or one that the
// managed resource does not have yet, which is no evidence that the provider observed anything (KR-08-48).
func (g Managed) seen(c parent.Condition) int64 {
	if c.ObservedGeneration > g.MR.Generation {
		return 0
	}
	return c.ObservedGeneration
}

// noChange reports whether the provider has observed the change that the gate was opened for, and makes no
// change although a difference remains: the gate does not wait for its deadline (KR-08-46).
func (g Managed) noChange(gate v1alpha1.Gate) bool {
	synced, _ := g.MR.Condition("Synced")
	return g.Inert && synced.Status == metav1.ConditionTrue && g.seen(synced) >= gate.Generation && !g.asyncPending() &&
		len(within(g.Difference, gate.Paths)) > 0
}

// asyncPending reports whether upjet's conditions show an asynchronous operation
// that is in progress, or the last one as failed.
func (g Managed) asyncPending() bool {
	if c, ok := g.MR.Condition("AsyncOperation"); ok && c.Reason == "Ongoing" {
		return true
	}
	c, ok := g.MR.Condition("LastAsyncOperation")
	return ok && c.Status == metav1.ConditionFalse
}

func within(differences []change.Change, paths []string) []change.Change {
	if len(paths) == 0 {
		return differences
	}
	return slices.DeleteFunc(slices.Clone(differences), func(d change.Change) bool { return !external.Touches(d, paths) })
}
