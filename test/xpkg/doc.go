// Package xpkg has the real Crossplane install the function's package, as make
// package builds it, from a registry, up to the Deployment, since there is no
// kubelet.
package xpkg
