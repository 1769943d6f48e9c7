// Package spool keeps records on disk until every sink has them: append-only segments with the length and checksum of
// each record, and a cursor for each reader.
//
// What Append has returned for is on disk, and survives the end of the process at any point. The
// spool is bounded: when it is full the oldest segment goes, and what a reader had not read of it is counted as lost for that reader.
// A tail that was torn by a crash is cut off; a segment that is damaged ends at the damage, which
// is counted, too. Order is that of appending: no clock is read.
//
// One process at a time has a spool. It knows nothing of what records contain.
package spool
