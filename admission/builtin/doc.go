// Package builtin determines how the API server stores a manifest of a kind that is built into Kubernetes: which
// values it stores in another form than they were written, and which it does not store at all (KR-08-44). It decides
// from the Go types of k8s.io/api. Custom resources are stored as they are written, so that this package does not
// handle them.
//
// It reads nothing but the two objects that it is given.
package builtin
