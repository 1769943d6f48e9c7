// Package trace reads and writes the trace annotation: the hops that lead from
// the origin of a change to the object that carries it (KR-07-01), and what
// follows from it, the intent generation of an object (KR-01-08).
package trace
