// Package cluster is how Kausality's processes see a cluster: which kinds there
// are and what their CRDs say of them, and the states of the objects of those
// kinds, from watches that keep a summary of each object and not the object.
//
// It decides nothing and, but for Annotate, writes nothing.
package cluster
