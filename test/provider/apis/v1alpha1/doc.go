// Package v1alpha1 holds the managed resources of the test provider, in
// Crossplane v2's namespaced form. They have the shape that crossplane-runtime
// gives every managed resource (providerConfigRef, managementPolicies,
// conditions, observedGeneration, lastHandledReconcileAt), because the tests
// are about what users of real providers see.
//
// +kubebuilder:object:generate=true
// +groupName=cloud.example.org
package v1alpha1
