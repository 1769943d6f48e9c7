// Package policycontroller turns Kausality policies into what
// the API server reads, which is the webhook configuration, the access of
// webhook and gate to what is guarded, and the ValidatingAdmissionPolicies that
// hold while the webhook is down; it renews the webhook's certificates, and creates
// the key by which webhook and gate seal claims.
//
// What these objects look like is decided in package manifests, which policy
// covers what in admission/settings, when to renew in package certs. Here is the
// storing: by server-side apply, only the fields that are ours, forced, so that
// a foreign edit is undone and a foreign field left alone; and nothing at all
// where everything is as it should be.
//
// Two things it never does. It takes no resource out of the configuration while
// a managed resource of it is masked: the gate, which must restore it, learns
// from the configuration what is guarded. And it draws no conclusion from
// policies that are gone because their CRD is: an uninstallation half done, or an
// accident, must not open anything.
package policycontroller
