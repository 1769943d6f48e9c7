package gating

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// unconfirmed tells what is missing until the opened generation is confirmed.
func (g Managed) unconfirmed(gate v1alpha1.Gate) string {
	synced, _ := g.MR.Condition("Synced")
	switch {
	case synced.Status != metav1.ConditionTrue:
		return "Synced is not True"
	case synced.ObservedGeneration > 0 && synced.ObservedGeneration < gate.Generation:
		return fmt.Sprintf("the provider has not seen generation %d yet", gate.Generation)
	case g.asyncPending():
		return "an asynchronous operation is pending or failed"
	case g.Kind.ReconcileRequests && g.RequestedAt != "" && g.HandledAt != g.RequestedAt:
		return "the provider has not handled a reconcile since"
	case synced.ObservedGeneration == 0 && !g.Kind.ReconcileRequests && !g.Comparable:
		return "the provider tells neither what it has seen nor what is there" // upjet can lose the generation for good
	case synced.ObservedGeneration == 0 && !g.Kind.ReconcileRequests && gate.Unproven:
		return "what was asked for last was there already, and the provider does not tell whether it has seen that"
	case slices.Contains(gate.Verbs, v1alpha1.VerbCreate) && !g.MR.True("Ready"):
		return "it is not Ready yet"
	}
	if left := within(g.Difference, gate.Paths); len(left) > 0 {
		return "the external resource still differs: " + change.Summary(left, 5)
	}
	return ""
}

// asyncPending as upjet's conditions tell: an operation that goes on, or whose
// last one failed.
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
	var out []change.Change
	for _, d := range differences {
		if slices.ContainsFunc(paths, func(p string) bool { return change.Under(d.Path, p) || change.Under(p, d.Path) }) {
			out = append(out, d)
		}
	}
	return out
}
