// Package manifests renders what a cluster needs so that its API server asks
// Kausality's webhook: the CRDs, access for webhook and gate, the webhook
// configuration, and the policy that keeps external resources from being
// orphaned while the webhook is down.
//
// It decides which requests reach the webhook at all (rules and match
// conditions), from the resources it is given, and refuses resources that must
// never wait for a webhook. What becomes of a request is decided in package
// admission. It reads no cluster and writes none: Render returns YAML for
// `kubectl apply -f -`.
package manifests
