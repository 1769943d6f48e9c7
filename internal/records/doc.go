// Package records decides which records result from what webhook and gate decide and observe, and carries them to the
// spool without delaying anything.
//
// An Occurrence is data of a decision or of a stored object. Its records follow from it alone: the same occurrence has the same
// records with the same ids, on every replica and after a restart. The Recorder turns occurrences into
// records in the background and writes them to the spool; package sink delivers them from there.
//
// No decision waits for a record, and none depends on one. Records hold no values of fields.
package records
