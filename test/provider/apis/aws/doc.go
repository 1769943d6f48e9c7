// Package aws holds a managed resource as Crossplane v1 has them: cluster-scoped,
// with a deletionPolicy beside its managementPolicies. Its kind is the one that
// Kausality's design documents have in their examples; what it stands for is in
// the test provider's own cloud.
//
// +kubebuilder:object:generate=true
// +groupName=rds.aws.crossplane.io
// +versionName=v1alpha1
package aws
