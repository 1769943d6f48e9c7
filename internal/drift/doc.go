// Package drift keeps the Drift objects of a cluster and sends DriftReports (KR-10-01 to KR-10-06).
//
// A refused or logged change becomes a Drift in three steps. On any replica, the Reporter creates the object or, if the
// same difference occurred before, sets it from Resolved to Detected. On the leader, the Resolver sets Drifts that are
// over to Resolved, and deletes resolved Drifts beyond their bounds. Also there, the Deliverer posts what a Drift's status
// shows as owed, by a Sender for each receiver, and writes to the status what each receiver knows: a report is sent
// at least once, whichever process ends in between. Its DriftReceiver shows whether reports arrive.
//
// Every replica has a Memory of what open Drifts hold, of the digests that are known under an id, and of who requested deletions. A Drift
// that is deleted although it is not over stays in it, and the leader's restorer creates the Drift again (KR-13-67).
//
// All of it runs outside of the request path: a full queue drops recordings and never delays a request.
// Which change is drift, and when a drift is over, is decided in package admission.
package drift
