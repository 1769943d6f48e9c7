// Package policies reads the policies that apply to a run of the composition
// function: AllowancePolicies and UpgradeAllowances of the Input, and those of the
// cluster as required resources, where the Input has a policySelector (KR-09-08).
//
// A Source is compiled once from the Input. For each request, Require declares what
// Crossplane is to fetch, and InForce returns what applies. Nothing is decided here:
// what a policy allows is for package allowance.
//
// A kind that is not installed, or that Crossplane may not read, makes Crossplane fail the
// whole pipeline. Therefore two objects are required first that report both, and that
// Crossplane reads by its own role: the CustomResourceDefinition of Kausality policies, and the
// webhook configuration. Policies are required once these report that Crossplane may read
// them; Crossplane runs the step again for these.
package policies
