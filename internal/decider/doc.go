// Package decider decides requests about guarded objects on a cluster: it reads what the core (package admission) decides by, carries out the
// effects of its decisions, and runs what is done beside requests. The webhook and the admission plugin of API servers bring it requests, and
// answer them. It decides nothing by itself.
//
// A request goes through Decider.Decide, which leaves out the claims that no seal proves, Evaluate in the core, which it calls again where
// another request was first to claim an approval, seals, and effects. It writes to the cluster in two cases only: the claim of what a change
// uses up, which is a once approval or a rule of an ApprovalPolicy (KR-05-33, KR-05-51), and the approval by which a gate opens if a policy
// permits the change (KR-08-05).
//
// Beside it run the settler, which records on parents what requests and watches show (decider/settler), the reporter, resolver and deliverer of
// Drifts (package drift), the controller of Rollouts (package rollout) and the store of compiled policies (package policystore).
// decider/builds identifies the build of a controller.
package decider
