package rollout

import (
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

var rollouts = telemetry.NewGauge("kausality_rollouts")

// phases of the metric, all of which are shown.
var phases = []v1alpha1.RolloutPhase{v1alpha1.RolloutInvalid, v1alpha1.RolloutPending, v1alpha1.RolloutProgressing, v1alpha1.RolloutPaused,
	v1alpha1.RolloutStopped, v1alpha1.RolloutCompleted}

// count the Rollouts by phase.
func (c *Controller) count() {
	n := map[v1alpha1.RolloutPhase]float64{}
	for _, r := range c.known {
		n[r.phase]++
	}
	for _, p := range phases {
		rollouts.WithLabelValues(string(p)).Set(n[p])
	}
}
