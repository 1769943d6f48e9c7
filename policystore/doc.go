// Package policy keeps the policies of a cluster in force: it watches the four
// kinds, compiles what changed, off the request path, and puts all of them into
// an allowance.Set that requests are decided by, replaced as a whole. It writes
// compile results and uses to their status, claims rules of mode once and
// generation there, and refuses policies that do not compile when they are
// written.
//
// It decides nothing about requests: what a policy says is known to package
// allowance, what follows from it to package admission.
package policystore
