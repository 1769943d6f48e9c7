// Package gating decides what the gate of a managed resource does: when the mask
// over spec.managementPolicies opens, for which verbs, when an opening is
// confirmed or expires, and what is reported while it is closed. Managed is about
// resources with managementPolicies, Foreign about objects of other systems such
// as Argo CD and Flux, Acceptance about the change that opens the gate in its own
// write, and Transitions lists all that there are.
//
// A decision is data. The gate controller, the webhook and the composition
// function carry it out, each in one write of the managed resource; none has a
// rule of its own. The package reads no clock and no cluster.
package gating
