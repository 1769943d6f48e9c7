// Package query is the requests and answers of a store of records: the filter
// of records with its form in a URL, cursors, and pages. The store, its server, the
// plugin and the benchmark share it, so that a client needs no database.
//
// It never reads or writes a record.
package query
