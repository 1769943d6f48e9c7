// Package admission is the shared core: it decides whether a request to create,
// change or delete an object may pass, and why. The user and the state of the
// parent (packages subject and parent), the change (change), the decisions of
// users (approval), policies (allowance, settings) and the cause of the change
// (trace) meet here and only here, in the order of steps in evaluate.go. What the
// gate does is decided in gating, whether a parent settled in settling; names and
// ids that the three share are in identity.
//
// Evaluate reads the cluster through World and changes nothing. Its Decision is
// data: a verdict with its reason, the edits to the object itself, and effects
// on other objects, which the adapters (webhook, fn, gate, the CLI) carry out
// if the verdict allows and the request is no dry-run.
//
// A refusal is a Decision, never an error. An error means that the cluster could
// not be read and nothing was decided.
package admission
