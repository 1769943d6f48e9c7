// Package actor identifies who makes a request: the controller of the parent, the object's own controller, or another user
// (docs/specification.md, section 4). What a client writes about itself, as a field manager, is a claim. It counts for users
// who are recorded to write the status of an object, or who may (KR-13-04).
package actor
