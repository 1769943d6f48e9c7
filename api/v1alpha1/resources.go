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
	switch kind {
	case KindAllowancePolicy:
		return ResourceAllowancePolicies
	case KindUpgradeAllowance:
		return ResourceUpgradeAllowances
	case KindApprovalPolicy:
		return ResourceApprovalPolicies
	case KindClusterApprovalPolicy:
		return ResourceClusterApprovalPolicies
	case KindApprovalRule:
		return ResourceApprovalRules
	}
	return ""
}
