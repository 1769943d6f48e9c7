// Package trace reads and writes the trace annotation: the hops that lead from
// the origin of a change to the object that carries it (spec 7), and what
// follows from it, the intent generation of an object (spec 1).
package trace
