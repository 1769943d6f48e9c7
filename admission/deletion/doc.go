// Package deletion decides about the external resources that a deletion destroys or leaves behind outside the
// cluster: the external resource of a managed resource, those below a composite or Claim, and those that an object of
// another system destroys (docs/specification.md, section 8). It is the first step of a decision, for any user.
package deletion
