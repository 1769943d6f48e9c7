// Package approve determines whether a change may pass by a decision of users or of policies about it: by the
// approvals on a holder and the votes that ApprovalRules require, by an UpgradeAllowance, by an ApprovalPolicy.
// Package approval decides which changes an approval covers, and package allowance which changes a rule selects.
package approve
