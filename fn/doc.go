// Package fn is the composition function: the last step but auto-ready of a
// Composition's pipeline. For each composed resource it works out what
// Crossplane's apply would leave (package ssa), has package admission decide about
// that, as the webhook does (decide.go), and then passes the change on with its
// trace (stamp.go) or holds it by emitting again what the pipeline composed before
// (hold.go). Where the Input asks for it, it masks managed resources as the gate
// does, by the transitions of package gating (gate.go). What is held is reported in
// the condition Kausality of the composite and in results (report.go), and stored
// on the resources themselves (hold.go, lookback.go).
//
// Policies come from the Input, or from the cluster as required resources
// (require.go, policies.go, upgrades.go). External systems receive who caused a
// change (provenance.go). As a step of an Operation there is nothing to decide: it
// audits the objects that it is given (audit.go, findings.go).
//
// It decides from the request alone: the observed composite with its annotations
// and managedFields, the observed resources, the desired ones. Without a webhook it
// derives what the webhook would know (intent.go, settled.go, lookback.go, used.go)
// and stores it in annotations of the composed resources, the only place that it
// can write to; whether the composite has settled is for package settling.
//
// It has no rule of its own about what is allowed, never reads the API, fails a
// pipeline only for an Input that does not validate, and never modifies the
// request. The same request gives the same response; the clock only determines
// whether the grace period is over, and when a gate opened and must close.
package fn
