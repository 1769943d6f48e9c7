// Package webhook is the admission core's first adapter: it reads AdmissionReviews, in one
// pass, into requests of the core, carries out the effects of its decisions and
// answers with patches or refusals. It decides nothing itself.
//
// Beside the request path it runs one asynchronous writer: it latches settled
// generations, phases and controllers on parents, and finishes the claims of
// used approvals. Drifts that no longer stand are closed, and package policy
// keeps the policies compiled. Within the request path there are two writes: the
// claim of what a change uses up, a once approval or a rule of an ApprovalPolicy,
// and, where a policy permits what a gate must open for, the approval that it
// opens by.
package webhook
