// Package subject identifies the user of a request: the user's hash as it is in
// the updaters and controllers annotations, the kind of user, and the field
// managers that Crossplane writes with.
//
// It knows nothing of objects and decides nothing; package admission puts its
// answers together (KR-04-01 to KR-04-06).
package subject
