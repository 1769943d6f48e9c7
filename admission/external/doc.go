// Package external holds the knowledge about external systems that needs no call to them. It compares the desired
// state of a managed resource with the state that its provider last observed: spec.forProvider with status.atProvider
// (KR-08-21). It determines the resources that deleting an object destroys outside, the actions of a Terraform plan
// that allowances permit, and the differences that are ignored. It also determines the fields that a gate keeps, and
// whose change it was.
//
// It makes no calls: it reads only objects and plans.
package external
