// Package allowance holds what AllowancePolicies, UpgradeAllowances,
// ApprovalPolicies, ClusterApprovalPolicies and ApprovalRules declare, in the form in which requests
// are decided by it (KR-05-50 to KR-06-23): compiled once, when a policy is loaded, and
// indexed by kind.
//
// Compile, CompileUpgrade, CompileApproval and CompileClusterApproval take a
// policy and return its compiled form with an error for each rule that cannot be understood; such a
// rule grants nothing. CompileRule does so for an ApprovalRule, which requires
// votes: one that cannot be understood is met by none. NewSet puts compiled policies together; a Set is never
// modified, so that a store replaces it as a whole. The entries of the
// allowances annotation are read, chosen, extended and pruned here.
//
// It never decides about a request as a whole, reads no cluster and knows no
// order of checks: package admission does that, and calls this one to find whether a
// change is granted, covered or excepted.
package allowance
