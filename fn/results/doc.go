// Package results bounds what the function reports to users: the number of results
// of a run, which Crossplane turns into events, and the size of each text.
package results
