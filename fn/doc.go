// Package fn is the composition function: the last step but auto-ready of a
// Composition's pipeline. For each composed resource it works out what
// Crossplane's apply would make of what is there (apply.go), has package
// admission decide about that, as the webhook has (decide.go), and then passes
// the change on with its trace stamped on it (stamp.go) or holds it back by
// emitting again what the pipeline composed before (hold.go, restrict.go). Where
// the Input asks for it, it keeps the gate of managed resources, too (gate.go). What
// was held stands in the composite's condition Kausality and in results
// (report.go), and on the resource itself (hold.go).
//
// Policies come from the Input, or from the cluster by way of required resources
// (require.go, policies.go, upgrades.go). External systems may be told who
// caused a change (provenance.go). As a step of an Operation there is nothing to
// decide: it looks at what it is given and reports (audit.go, findings.go).
//
// It decides from the request alone: the observed composite with its
// annotations and managedFields, the observed resources, the desired ones.
// Without a webhook it derives what the webhook would know (intent.go,
// settled.go, lookback.go, used.go) and remembers it in the composed resources' own
// annotations and the composite's condition, the only places it can write to.
//
// It has no rule of its own about what is allowed, never reads the API, never
// fails a pipeline but for an Input that does not validate, and never modifies
// the request. The same request gives the same response; the clock says only
// whether the grace period is over, when a gate opened and when it must close.
package fn
