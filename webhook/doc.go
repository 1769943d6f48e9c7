// Package webhook is the admission webhook: it turns AdmissionReviews into requests to the decider, and answers with patches or refusals. It
// decides nothing by itself.
//
// The path of a review is decode (webhook/review), Decider.Decide, respond. webhook/serving is the HTTP server, webhook/rollouts reviews
// Rollouts.
package webhook
