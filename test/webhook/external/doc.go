// Package external tests webhook and gate against objects of external systems
// that have no managementPolicies, on a real API server: Terraform objects of
// Flux's tofu-controller and Applications of Argo CD. The controllers of these
// systems are played by the tests, which follow what the real ones do with the
// fields that the gate writes; the Application's schema is Argo CD's own.
package external
