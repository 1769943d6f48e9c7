// Package change compares the desired state of two versions of an object: everything outside apiVersion, kind,
// metadata and status (KR-01-01). It returns the changed field paths with their kind of change, and the digest
// of a difference. By it, or by the id that abbreviates it, a user approves exactly the difference that was shown.
//
// It has the only matcher of field paths (Pattern), and knows how the items of lists are identified (Lists): by the
// struct tags of Kubernetes' own types, and by x-kubernetes-list-type and x-kubernetes-list-map-keys of CRDs.
//
// It does not depend on the user who made a change, or on whether the change is allowed.
package change
