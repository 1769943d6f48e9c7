// Package site runs Kausality as the Helm chart installs it, on a real
// control plane: the rendered manifests are applied, and each component runs as
// a process with the arguments of its Deployment and the ServiceAccount and
// access that the chart gives it, as no admin. There is no kubelet and no
// Service network: a small balancer is what the webhook's Service would be, which
// hands new connections to replicas that are ready. Components reach the API server over
// a line that a test can cut, which ends all of their watches.
package site
