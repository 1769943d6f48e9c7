// Package v1alpha1 is Kausality's public contract: the vocabulary of
// kausality.io annotations with the values they hold, the policies
// (AllowancePolicy, UpgradeAllowance, ApprovalPolicy, ClusterApprovalPolicy,
// ApprovalRule, Kausality), the Drift resource, Rollout, ClusterRollout and
// RolloutBatch, and the DriftReport that is posted to notification endpoints.
//
// It holds data only. Who may write what, and what follows from it, is decided
// in package admission.
//
// +kubebuilder:object:generate=true
// +groupName=kausality.io
package v1alpha1
