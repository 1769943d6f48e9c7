// Package rollout carries out Rollouts on the leading webhook: it lists what waits for a cause in RolloutBatches, passes the
// votes for that plan on to the objects of one wave after the other, and watches their health. What it does next is
// decided in admission/rollout.
package rollout
