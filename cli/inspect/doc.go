// Package inspect answers questions about a cluster at one moment: what caused an
// object to be as it is, what would happen if it were changed now and why, which
// changes are pending, what is not protected.
//
// What would happen is decided by admission.Evaluate, on the same annotations
// and the same summaries of objects as in the webhook; the package adds no rule
// of its own. It reads live, past every cache, and writes nothing. It does not
// see the memory of the running webhook: that a parent has settled shows when the
// annotation is written, moments later.
package inspect
