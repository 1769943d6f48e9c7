package gating

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// record stores what the provider shows behind a closed gate, once it has observed the gate's
// generation: what it shows later is external drift (KR-08-47). What an earlier opening changed may show
// later than the opening was confirmed. A generation that the provider itself made is recorded again.
func (g Managed) record(author []string, gate v1alpha1.Gate) Decision {
	switch {
	case len(g.Shown) == 0, gate.Observed != nil && gate.Observed.Generation == g.MR.Generation:
		return Decision{Why: "it is closed"}
	case !g.observedClosed(gate):
		return Decision{Why: "it is closed, and the provider has not observed that yet"}
	}
	gate.Observed = &v1alpha1.GateObserved{Generation: g.MR.Generation, Digests: g.Shown}
	return g.stored(ActionRecord, author, gate)
}

// observedClosed reports whether the provider has observed a closed gate, as far as it reports that.
func (g Managed) observedClosed(gate v1alpha1.Gate) bool {
	synced, _ := g.MR.Condition("Synced")
	return synced.Status == metav1.ConditionTrue && !g.asyncPending() &&
		(synced.ObservedGeneration == 0 || g.seen(synced) >= max(gate.Generation, g.MR.Generation))
}

// shownPaths returns the paths of a difference that the provider shows in its status, as text; "" where
// it shows no path.
func shownPaths(diff []change.Change) string {
	return strings.Join(slices.DeleteFunc(change.Paths(diff), func(path string) bool { return !external.IsShown(path) }), ", ")
}
