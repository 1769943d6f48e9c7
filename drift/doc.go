// Package notify tells people of drift: it keeps the Drift objects, posts
// DriftReports to endpoints, and says when a drift is resolved (spec 10).
//
// Everything here happens beside the request path: a full queue drops reports,
// never requests. What is reported is decided in package admission.
package drift
