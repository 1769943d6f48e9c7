package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all Kausality types and annotations.
const Group = "kausality.io"

// Resources of the Kausality policies, of the changes that were refused, and of where these are reported to.
const (
	ResourceKausalities    = "kausalities"
	ResourceDrifts         = "drifts"
	ResourceDriftReceivers = "driftreceivers"
)

// Resources of the policies whose paths and expressions are compiled (KR-05-54).
const (
	ResourceAllowancePolicies       = "allowancepolicies"
	ResourceUpgradeAllowances       = "upgradeallowances"
	ResourceApprovalPolicies        = "approvalpolicies"
	ResourceClusterApprovalPolicies = "clusterapprovalpolicies"
	ResourceApprovalRules           = "approvalrules"
)

// PolicyResources lists the resources of the policies that are compiled, in a fixed
// order. The caller may modify the slice.
func PolicyResources() []string {
	return []string{ResourceAllowancePolicies, ResourceUpgradeAllowances, ResourceApprovalPolicies, ResourceClusterApprovalPolicies, ResourceApprovalRules}
}

// Resources of Rollouts and of what they consist of.
const (
	ResourceRollouts        = "rollouts"
	ResourceClusterRollouts = "clusterrollouts"
	ResourceRolloutBatches  = "rolloutbatches"
)

var (
	// GroupVersion of the types in this package.
	GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

	// SchemeBuilder adds the types of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Drift{}, &DriftList{}, &DriftReceiver{}, &DriftReceiverList{}, &Kausality{}, &KausalityList{},
		&AllowancePolicy{}, &AllowancePolicyList{}, &UpgradeAllowance{}, &UpgradeAllowanceList{},
		&ApprovalPolicy{}, &ApprovalPolicyList{}, &ClusterApprovalPolicy{}, &ClusterApprovalPolicyList{},
		&ApprovalRule{}, &ApprovalRuleList{},
		&Rollout{}, &RolloutList{}, &ClusterRollout{}, &ClusterRolloutList{}, &RolloutBatch{}, &RolloutBatchList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
