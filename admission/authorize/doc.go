// Package authorize decides whether a user may make a write that decides about what controllers do with an object: by annotations, by what
// orphans external resources, by labels, or by another parent. It reads the facts of a request and the rights of its user.
//
// It grants nothing, and never modifies the object.
package authorize
