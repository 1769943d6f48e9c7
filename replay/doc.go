// Package replay asks recorded changes against policies, before they are in
// force: what would have been refused, and why (Test), and which AllowancePolicies
// the changes call for (Derive). It reads audit logs of an API server, with
// objects and with Kausality's annotations in them, and Drifts.
//
// Decisions are those of package admission, on a World that is made of the
// recorded objects; nothing is asked of a cluster.
package replay
