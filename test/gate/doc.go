// Package gate tests the gate on real parts, on one control plane without
// Crossplane: the API server, the garbage collector and the namespace
// controller, our webhook and gate, and the test provider with its cloud, whose
// request log records every external operation. What Crossplane would apply is
// applied in its name, by its field manager.
//
// TestRandom interleaves all of them by seed; `go test ./gate -run TestRandom
// -args -random.seeds=100` runs as many, -random.seed=N one.
package gate
