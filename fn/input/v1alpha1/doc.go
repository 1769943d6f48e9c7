// Package v1alpha1 holds the Input of the composition function: the field input
// of a Composition's pipeline step. It is data only; package fn
// reads and validates it.
//
// +kubebuilder:object:generate=true
// +groupName=kausality.fn.crossplane.io
// +versionName=v1alpha1
package v1alpha1
