// Package clock is the time by which Kausality decides: that of the API server, which stamps managedFields, deletions and
// creations, whatever the clock of this machine shows (KR-13-25). What talks to the API server compares the Date of its answers with
// Observe. Until the first answer, and in processes that talk to no API server, it is this machine's time.
package clock
