// Package soak lets a hundred composites of twenty kinds live for an hour on the real Crossplane: users change them, something changes in
// the cloud, Compositions are upgraded, composites are deleted and created again, and processes are killed. What was requested arrives,
// nothing else does, each Drift has a cause, memory is flat, and in the end nothing is written.
package soak
