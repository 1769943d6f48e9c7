// Package inspect answers people's questions about a cluster at one moment: who
// caused an object to be as it is, what would happen if its controller changed
// it now and why, what waits for approval, what is not protected.
//
// What would happen is decided by admission.Evaluate, on the same annotations
// and the same summaries of objects as in the webhook; the package adds no rule
// of its own. It reads live, past every cache, and writes nothing. What it
// cannot see is the memory of the running webhook: settling shows here when the
// annotation is written, moments later.
package inspect
