// Package request is what is decided about: one create, update or delete of an
// object, in the form that all adapters bring it into. It identifies the stored and
// the incoming object, the generation after the write, and what in the incoming object
// an earlier call for the same request wrote (KR-05-25).
//
// It decides nothing about the request and never modifies it.
package request
