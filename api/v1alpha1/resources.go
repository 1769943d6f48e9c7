package v1alpha1

// Kinds of policies that allow changes.
const (
	KindAllowancePolicy       = "AllowancePolicy"
	KindUpgradeAllowance      = "UpgradeAllowance"
	KindApprovalPolicy        = "ApprovalPolicy"
	KindClusterApprovalPolicy = "ClusterApprovalPolicy"
	KindApprovalRule          = "ApprovalRule"
)

// PolicyResource of a kind of policies that allow changes; "" for other kinds.
func PolicyResource(kind string) string {
	return policyResources[kind]
}

var policyResources = map[string]string{
	KindAllowancePolicy:       ResourceAllowancePolicies,
	KindUpgradeAllowance:      ResourceUpgradeAllowances,
	KindApprovalPolicy:        ResourceApprovalPolicies,
	KindClusterApprovalPolicy: ResourceClusterApprovalPolicies,
	KindApprovalRule:          ResourceApprovalRules,
}
