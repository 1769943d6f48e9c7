// Package allowance holds the declarations of AllowancePolicies, UpgradeAllowances, ApprovalPolicies,
// ClusterApprovalPolicies and ApprovalRules in the form in which requests are decided (KR-05-50 to KR-06-23). They
// are compiled once, when a policy is loaded, and indexed by kind.
//
// Compile, CompileUpgrade, CompileApproval and CompileClusterApproval compile a policy. They return its compiled form
// with an error for each rule that cannot be understood; such a rule grants nothing. CompileRule does so for an
// ApprovalRule, which requires votes: no approval meets a rule that cannot be understood. NewSet combines compiled
// policies; a Set is never modified, so that a store replaces it as a whole. This package also reads, selects,
// extends and prunes the entries of the allowances annotation.
//
// It never decides about a request as a whole, reads no cluster and knows no order of checks: package admission does
// that, and calls this one to find whether a change is granted, covered or excepted.
package allowance
