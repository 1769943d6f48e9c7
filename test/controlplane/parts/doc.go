// Package parts builds the programs a control plane for tests consists of, each from its own Go
// module under test/parts, and returns where they are.
//
// What is built is decided by one table (table.go); which version, by the go.mod of the part's
// module and nothing else. A part is built once for all clones of a user, into the user's cache
// ($XDG_CACHE_HOME/kausality/parts), and BINDIR/<name>-<version> is a link to it. The key of an entry has
// the module's files, the arguments and settings of the build, and the toolchain. A build holds a file lock
// and ends with renaming a finished file, so that an interrupted one leaves nothing that looks
// finished, and two builders do not do the work twice. The name of an entry has its SHA-256, which is verified
// when a link is made and by Prepare. An entry that no run has used for 30 days is removed when another
// one is written. Where the cache cannot be written, the part is built into BINDIR.
//
// Programs of this repository have no version in their name and are built into BINDIR on every call,
// which Go's build cache makes quick when nothing has changed.
//
// Prepare builds everything ahead of the tests: make test calls it before the first control plane
// starts and sets EnvPrebuilt for what follows, so that no test compiles. A test that is run alone
// builds what is missing, with a line of progress for each part.
//
// If KUBEBUILDER_ASSETS names a directory that holds etcd, kube-apiserver,
// kube-controller-manager or kubectl, those are taken as they are, whatever their version.
//
// The package downloads nothing itself: the go command fetches the modules that the go.mod and
// go.sum files pin. It never starts the programs; package controlplane does.
package parts
