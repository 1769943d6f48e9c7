// Package operations runs Kausality as the Helm chart installs it, on a real
// control plane: the rendered manifests are applied, and each component runs as
// a process with the arguments of its Deployment and the ServiceAccount and
// access that the chart gives it, as no admin. There is no kubelet and no
// Service network: a small balancer stands in for the webhook's Service, which
// hands new connections to replicas that are ready.
//
// Kinds leave the policies and come back. Our components reach the API server over
// a line that a test can cut, which ends all of their watches.
//
// Then things go wrong: the webhook is down, its configuration is deleted or
// edited, the CRD of the policies removed, certificates expire under load, the
// API server and the replicas restart.
//
// With -rotation.years=5 certificates are rotated under load as often as five years
// do at the default lifetimes, in their proportions; it takes five minutes and more.
package operations
