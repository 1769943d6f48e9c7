// Package ssa works out what Crossplane's server-side apply of a composed resource
// leaves: what it changes (Apply, Applied), and what would change nothing
// (Restrict). It knows from the managedFields of the observed resource which manager
// applied which field (Own), as the API server's structured-merge-diff does, and it
// converts between the Structs of a request and unstructured content.
//
// It knows no schema: list types are those that managedFields show, and defaults
// that the API server puts back for removed fields are not seen. It modifies no
// argument and shares what does not change; each function documents what it shares.
package ssa
