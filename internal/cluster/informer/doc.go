// Package informer watches resources of a cluster and keeps a summary of each object
// in place of the object. A panic in a summary or a handler is the error of one
// object (KR-13-02), and a permission that is missing is reported and retried. It
// also reads what a late watch may not have: once for all who need it, and lists by
// pages.
package informer
