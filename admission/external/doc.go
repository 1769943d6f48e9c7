// Package external is what is known of external systems without asking them
// (spec 8). It compares what a managed resource asks for with what its provider
// last saw: spec.forProvider with status.atProvider ("External drift"). It says
// what deleting an object destroys outside, what allowances permit of a Terraform
// plan, where the fields stand that a gate keeps, and which tags and variables
// tell the system who caused a change.
//
// It calls nothing; what objects and plans say is all it knows.
package external
