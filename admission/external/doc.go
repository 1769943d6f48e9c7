// Package external is what is known of external systems without calling them. It
// compares the desired state of a managed resource with what its provider last
// observed: spec.forProvider with status.atProvider (KR-08-21). It decides what
// deleting an object destroys outside, what allowances permit of a Terraform
// plan, which differences are ignored, which fields a gate keeps, and which tags
// and variables identify the cause of a change to the system.
//
// It calls nothing: objects and plans are all it reads.
package external
