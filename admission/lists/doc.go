// Package lists tells how the items of the lists of a kind are told apart: by the
// struct tags of Kubernetes' own types, and by x-kubernetes-list-type and
// x-kubernetes-list-map-keys of CRDs. It reads types and schemas, never objects.
package lists
