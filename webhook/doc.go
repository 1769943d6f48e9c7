// Package webhook is the admission webhook: it turns AdmissionReviews into requests to the core (package
// admission), carries out the effects of its decisions and answers with patches or refusals. It decides
// nothing by itself.
//
// The path of a review is decode (webhook/review), Handler.decideOn, which leaves out the claims that no seal proves, Evaluate in the
// core, which it calls again where another request was first to claim an approval, seals, effects, respond. It
// writes to the cluster in two cases only: the claim of what a change uses up, which is a once approval or a
// rule of an ApprovalPolicy (KR-05-33, KR-05-51), and the approval by which a gate opens if a policy permits
// the change (KR-08-05).
//
// Beside it run the settler, which records on parents what requests and watches show (webhook/settler), the
// reporter, resolver and deliverer of Drifts (package drift), the controller of Rollouts (package rollout) and the
// store of compiled policies (package policystore).
// webhook/serving is the HTTP server, webhook/builds identifies the build of a controller, webhook/rollouts reviews Rollouts.
package webhook
