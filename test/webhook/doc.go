// Package webhook tests the webhook on a real API server with the real
// controller manager: what only shows when several replicas, crashes, real
// controllers and a real watch cache meet. It needs no Crossplane.
//
// All tests share one control plane (TestMain). A test has a fleet of its own:
// one or more webhook processes, of a MutatingWebhookConfiguration that is
// restricted to the fleet's namespaces, and an API group of its own with the
// kinds App (a parent), Part (a child) and Managed (like a managed resource).
// Replicas are behind a proxy that hands each request to the next of them: the API
// server keeps one connection to a webhook, so nothing else would spread its
// requests.
package webhook
