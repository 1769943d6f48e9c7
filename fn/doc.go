// Package fn is the composition function: the last step but auto-ready of a
// Composition's pipeline. For each composed resource it computes what Crossplane's
// apply would leave (package ssa), calls package admission, as the webhook does
// (decide.go), and then emits the change with its trace (stamp.go) or holds it by
// emitting what the pipeline composed before (hold.go). Where the Input configures
// it, it masks managed resources as the gate does, by the transitions of package
// gating (gate.go). What is held is reported in the condition Kausality of the
// composite and in results (report.go), and stored on the resources themselves.
//
// Its parts that answer one question each are packages of their own:
//
//	ssa       what Crossplane's server-side apply leaves
//	offline   what is known without a webhook, from the observed objects alone
//	policies  the policies of the Input and of the cluster
//	session   the session tag of AWS providers
//	audit     the step of an Operation, where there is nothing to decide
//	results   the bounds of what is reported
//
// It decides from the request, and from the key of seals where it has one, by which it knows the votes that count: the observed composite with its annotations
// and managedFields, the observed resources, the desired ones. Annotations of the
// composed resources are the only place that it can write to.
//
// It has no rule of its own about what is allowed, never reads the API, fails a
// pipeline only for an Input that does not validate, and never modifies the
// request. The same request gives the same response (KR-09-13); the clock only
// determines whether the grace period is over, and when a gate opened and must close.
package fn
