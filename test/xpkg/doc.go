// Package xpkg has the real Crossplane install the function's package, as
// make package builds it, from a registry: as far as that goes without a
// kubelet.
package xpkg
