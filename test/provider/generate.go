// Package provider is a small Crossplane provider for tests and the demo, and
// the cloud it manages databases and instances in. `go generate ./...` in this module writes
// the deepcopy functions of apis/ and the CRDs in crds/ (controller-gen is a tool
// of this module); a diff afterwards means that they were outdated.
//
// To add a kind: its type and the accessors below apis, its fields in
// cloud/kind.go with a collection in cloud/client, an external.Kind that maps
// one to the other, and a line in controller/kinds.go.
package provider

//go:generate go tool controller-gen object paths=./apis/...
//go:generate go tool controller-gen crd:crdVersions=v1 paths=./apis/... output:crd:artifacts:config=crds
