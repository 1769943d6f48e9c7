// Package parent finds the parent of an object and sums up its state: what it
// has observed, whether it converged and settled, how far its life has come,
// which managers reconcile it (KR-03-01 to KR-03-05).
//
// A State is computed from one version of one object and is all that decisions
// need of a parent, so that caches keep States and not objects. The package
// reads no API, and the clock only to bound times that clients write.
package parent
