// Package v1alpha1 is the schema of records: one small object for each thing that matters about a
// change, linked by causedBy from the user who requested it to the cloud. Webhook and gate
// write records to a spool, sinks deliver them, and a store keeps them.
//
// A Record is no Kubernetes object: no API server stores one. It holds no value of a field, only paths.
//
// It holds data, its encoding and its identity. Which records result from a decision is decided in
// package records. Values are safe for concurrent reads.
//
// Within a version of the schema fields and types may be added; a reader ignores fields and keeps
// types that it does not know. What changes the meaning of a field is another version,
// which Decode refuses.
package v1alpha1
