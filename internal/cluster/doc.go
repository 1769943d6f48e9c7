// Package cluster is how Kausality's processes see a cluster: which kinds there
// are and how their CRDs define them, and the states of the objects of those
// kinds, from watches that keep a summary of each object and not the object. A
// watch begins when its kind comes under guard or is requested, and ends when
// the kind is guarded no more and none of its objects has to be restored, or with its
// CRD; what it kept goes with it.
//
// Of the claims of an object it shows those that count, by the key that it reads
// before anything else, and it seals those that it writes (KR-13-69).
//
// It decides nothing. It writes only what it is handed: a Patch (States.Apply),
// claims (States.TakeClaims), and the mark that Kausality is being removed
// (MarkRemoval).
package cluster
