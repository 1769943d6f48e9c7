// Package manifests renders what a cluster needs so that its API server calls
// Kausality's webhook: the CRDs, access for webhook, gate and policy controller,
// the webhook configuration, and ValidatingAdmissionPolicies, which hold while the
// webhook is down, too: that no external resource is orphaned, that system
// annotations are not forged, that decisions take the right to approve, that
// only Kausality writes Drifts, that no policy is written around an ApprovalRule,
// and which mode a Namespace has.
//
// It decides which requests reach the webhook at all (rules and match
// conditions), from the resources or the policies it is given, and refuses
// resources that must never wait for a webhook. What becomes of a request is
// decided in package admission. It reads no cluster and writes none: Render
// returns YAML for `kubectl apply -f -`, Chart what the Helm chart has of it, and
// Guard the objects that the policy controller keeps.
package manifests
