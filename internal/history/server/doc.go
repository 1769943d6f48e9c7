// Package server is the HTTP server of a store of records: it takes batches of CloudEvents, and answers
// queries of users whom the API server authenticates and authorizes. A record is shown to
// who may get its object, and to auditors.
//
// It trusts a sender with the records of its own cluster alone, and a user with nothing. It never
// calls a cluster other than its own.
package server
