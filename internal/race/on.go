//go:build race

package race

// Enabled is whether the race detector runs.
const Enabled = true
