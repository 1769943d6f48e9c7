package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestTransitions: each wave that begins and each phase that users have to know of is one event (KR-14-58).
func TestTransitions(t *testing.T) {
	waves := []v1alpha1.RolloutWaveStatus{{Total: 1}, {Total: 5}}
	status := func(phase v1alpha1.RolloutPhase, wave int32, message string) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Phase: phase, Wave: wave, Message: message, Waves: waves}
	}
	for name, c := range map[string]struct {
		before, now *v1alpha1.RolloutStatus
		want        []event
	}{
		"nothing": {status(v1alpha1.RolloutProgressing, 1, "a"), status(v1alpha1.RolloutProgressing, 1, "b"), nil},
		"planned": {&v1alpha1.RolloutStatus{}, status(v1alpha1.RolloutPending, 0, "0 of 1 approvals"), nil},
		"approved": {status(v1alpha1.RolloutPending, 0, ""), status(v1alpha1.RolloutProgressing, 1, ""),
			[]event{{"Normal", "WaveBegan", "Wave 1 of 2 begins: 1 objects are let through."}}},
		"the next wave": {status(v1alpha1.RolloutProgressing, 1, ""), status(v1alpha1.RolloutProgressing, 2, ""),
			[]event{{"Normal", "WaveBegan", "Wave 2 of 2 begins: 5 objects are let through."}}},
		"stopped": {status(v1alpha1.RolloutProgressing, 2, ""), status(v1alpha1.RolloutStopped, 2, "1 of 5 objects were not healthy"),
			[]event{{"Warning", "RolloutStopped", "It stopped: 1 of 5 objects were not healthy."}}},
		"paused": {status(v1alpha1.RolloutProgressing, 1, ""), status(v1alpha1.RolloutPaused, 1, "wave 1 is done"),
			[]event{{"Normal", "RolloutPaused", "It waits: wave 1 is done."}}},
		"completed": {status(v1alpha1.RolloutProgressing, 2, ""), status(v1alpha1.RolloutCompleted, 2, "6 objects are done"),
			[]event{{"Normal", "RolloutCompleted", "It is completed: 6 objects are done."}}},
		"invalid": {&v1alpha1.RolloutStatus{}, status(v1alpha1.RolloutInvalid, 0, "spec.waves: none"),
			[]event{{"Warning", "RolloutInvalid", "Nothing passes: spec.waves: none."}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, transitions(c.before, c.now)) })
	}
}
