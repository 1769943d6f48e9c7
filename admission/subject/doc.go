// Package subject tells who makes a request: the user's hash as it stands in
// the updaters and controllers annotations, the kind of user, and the field
// managers Crossplane works under.
//
// It knows nothing of objects and decides nothing; package admission puts its
// answers together (spec 4, "Who is the parent's controller?").
package subject
