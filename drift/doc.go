// Package drift keeps the Drift objects of a cluster and sends DriftReports (KR-10-01 to KR-10-06).
//
// A refused or logged change becomes a Drift in three steps. The Reporter creates the object or, if the
// same difference occurred before, sets it from Resolved to Detected; whichever replica succeeds
// in that write sends the report. The Sender posts it to every endpoint and retries. On the leader, the
// Resolver sets Drifts that are over to Resolved, which is reported too, and deletes resolved Drifts
// beyond their bounds.
//
// All of it runs outside of the request path: a full queue drops reports and never delays a request.
// Which change is drift, and when a drift is over, is decided in package admission.
package drift
