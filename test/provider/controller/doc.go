// Package controller runs the provider's kinds on crossplane-runtime's managed
// reconciler, set up as providers are: management policies on, desired-state
// event filter, a rate limit on reconciles, the object's name as external name,
// which is deterministic.
//
// It needs these permissions in Kubernetes: get, list, watch, update and patch
// databases.cloud.example.org and rdsinstances.rds.aws.crossplane.io, update the
// status and the finalizers of both, create and patch events.
package controller
