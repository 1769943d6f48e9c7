// Package release makes the files of a release that no standard program makes: a multi-architecture image as an OCI layout,
// archives of the kubectl plugin, its krew manifest, and checksums. The same inputs give the same bytes.
package release
