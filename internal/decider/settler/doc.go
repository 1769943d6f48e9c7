// Package settler records on parents what the webhook finds out about them: the latch of settled
// generations, the phase, the controllers, intents that carry no trace of their own, and the outcome of
// claimed approvals (KR-03-05, KR-03-06, KR-05-36). docs/design/0003-settling.md has the reasons.
//
// Memory is what the replica has seen in requests and watches, before any annotation shows it. The
// request path reads and fills it. The Settler compares it with the watched objects and writes what
// they lack, outside of the request path. Every replica computes the latches; the leader writes them,
// and other replicas what it has not written within 2 seconds.
//
// All of Memory may be lost, as it is with the process: it is found again in the objects, or seen again.
// When a parent has settled, and what became of a claim, is decided in package admission.
package settler
