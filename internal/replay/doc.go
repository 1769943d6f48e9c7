// Package replay evaluates policies on recorded changes, before they are in force:
// which changes would have been refused, and why (Test), and which
// AllowancePolicies would allow them (Learner). It reads audit logs of an API
// server, which contain objects with Kausality's annotations, and Drifts.
//
// Decisions are those of package admission, on a World that consists of the
// recorded objects; no cluster is read.
package replay
