// Package webhook is the admission core's first adapter: it reads AdmissionReviews, in one
// pass, into requests of the core, carries out the effects of its decisions and
// answers with patches or refusals. It decides nothing itself.
//
// Beside the request path it runs one asynchronous writer: it latches settled
// generations, phases and controllers on parents, and finishes the claims of
// used approvals. Within the request path there is one write, the claim of a
// once approval.
package webhook
