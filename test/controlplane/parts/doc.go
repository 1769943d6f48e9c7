// Package parts builds the programs a control plane for tests consists of, each from its own Go
// module under test/parts, and says where they are.
//
// What is built is decided by one table (table.go); which version, by the go.mod of the part's
// module and nothing else. A part is built once per version, into BINDIR/<name>-<version>, under a
// file lock and by renaming a finished file, so that an interrupted build leaves nothing that looks
// finished and two builders do not do the work twice. Parts that belong to this repository are
// handed in by the caller, are named without a version, and are built every time: Go's build cache
// makes that quick when nothing has changed.
//
// If KUBEBUILDER_ASSETS names a directory that holds etcd, kube-apiserver,
// kube-controller-manager or kubectl, those are taken as they are, whatever their version.
//
// The package downloads nothing itself: the go command fetches the modules that the go.mod and
// go.sum files pin. It never starts the programs; package controlplane does.
package parts
