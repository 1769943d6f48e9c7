// Package gate is the controller that keeps the gate of managed resources: it
// installs the closed mask, opens it for what is approved later, closes it when
// the provider confirmed what it was opened for, and reports external drift
// (spec 8). What it does with one MR is decided by gating.Managed; this
// package watches, writes and tells.
//
// Each transition is one write of mask and gate annotation together, under the
// precondition that the MR has not changed since it was looked at. A process
// that dies between any two writes finds in the objects what it had done.
package gate
