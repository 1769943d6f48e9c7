// Package change compares the desired state of two versions of an object: what
// spec 1 calls everything outside apiVersion, kind, metadata and status. It
// yields the changed field paths with their kind of change, and the id of a
// difference, by which people approve exactly what they were shown.
//
// It never looks at who made a change or whether it is allowed.
package change
