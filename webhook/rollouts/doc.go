// Package rollouts answers the reviews of Rollouts and ClusterRollouts.
package rollouts
