// Package release restores what the gate masks: the author's
// spec.managementPolicies of managed resources, and the author's value of the
// field by which the gate of an external system is closed (KR-08-17).
//
// Ungate restores once, for named objects or for all, with webhook and gate
// stopped or in mode log. Remove restores everything while they run, before
// Kausality is uninstalled (KR-12-08). Both read and write the API server
// directly, keep nothing, and may be repeated or run concurrently: an object that
// is restored is skipped, and one that changed since it was read is read again.
package release
