// Package systems has the drivers of external systems whose objects have no
// spec.managementPolicies, one file each: Terraform objects of Flux's
// tofu-controller and Applications of Argo CD (KR-08-42). It also reads Terraform
// plans (KR-08-41).
//
// A System reads from an object whether its gate is open, the author's value, what
// the system would do and whether it has done it, and returns the smallest edits
// that open and close the gate. It writes nothing and decides nothing: what may be
// opened is decided in admission/gating. To add a system, implement System and add
// it to For.
package systems
