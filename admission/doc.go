// Package admission is the shared core: it decides what becomes of a request to
// create, change or delete an object, and why. Who asked and how the parent
// stands (packages subject and parent), what changed (change), what people
// decided (approval), what policies say (allowance, settings) and how the change
// came about (trace) are put together here and only here, in the order of spec 5;
// see steps in evaluate.go. So is what becomes of a gate, whoever keeps it:
// Gating (spec 8, with mask and external).
//
// Evaluate reads the world through World and changes nothing. Its Decision is
// data: a verdict with its reason, the edits to the object itself, and effects
// on other objects, which the adapters (webhook, fn, gate, the CLI) carry out
// if the verdict allows and the request is no dry-run.
//
// A refusal is a Decision, never an error. An error means that the world could
// not be read and nothing was decided.
package admission
