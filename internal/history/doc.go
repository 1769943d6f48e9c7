// Package history stores records of the schema of package api/records in SQL, and answers
// questions about them: SQLite in one file, without any set-up, or PostgreSQL for a fleet.
//
// A record is stored once, by its id, which is the same for each delivery, whenever and by any sender it is
// delivered. The id alone is the key: the tables are not partitioned by time, so that a record
// whose time differs is not a second one, and retention deletes in small batches instead.
//
// All that a record can be found by, but its time, is a term: one inverted index instead of
// columns, since a record has several approvers, causes and predecessors, and is
// found by its object and by its parent. A query reads the pages of one term in the order
// of time, whatever the size of the store.
//
// The package forgets the name of a person, by a keyed hash in its place, so that what that person did
// remains linked. The chain of hashes that an export proves the
// records with is computed over the same hashes, and survives that.
//
// It never decides whether a change may pass, and who may see a record: package server does the latter.
package history
