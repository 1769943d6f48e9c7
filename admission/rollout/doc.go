// Package rollout decides about Rollouts: which changes they are of, in which waves these pass,
// when the next wave begins, and what the votes for a plan lack. It reads and writes nothing.
package rollout
