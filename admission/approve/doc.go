// Package approve finds out whether a change may pass by a decision of users or of policies about it: by the approvals on a
// holder and the votes that ApprovalRules require, by an UpgradeAllowance, by an ApprovalPolicy. What an approval covers is
// decided in package approval, what a rule selects in package allowance.
package approve
