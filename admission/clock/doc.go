// Package clock provides the time by which Kausality decides. That is the time of the API server, which stamps
// managedFields, deletions and creations, whatever the clock of this machine shows (KR-13-25). Clients of the API
// server compare the Date of its answers with Observe. Until the first answer, and in processes that have no client
// of the API server, it is this machine's time.
package clock
