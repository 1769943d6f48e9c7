// Package gate is the controller of the gates (KR-08-01 and following): it masks
// managed resources and objects of external systems, opens their gates for what is
// approved, closes them when the change is confirmed, and reports external drift.
//
// An event of an object leads to one decision of admission/gating and to at most
// one write, of policies and gate annotation together, under the precondition that
// the object has not changed since it was read (KR-08-23). All state is in the
// objects: a process that ends between two writes is continued by the next leader.
//
// Three reconcilers share a core, which decides by admission/gating: managed, of managed
// resources and of those that hold approvals for them; foreign, of objects of
// external systems; and waker, of composites that wait for what allows a change.
// Controller.listen has what makes each of them reconcile. A comment at a return
// that does nothing has what brings the object back.
//
// Package gate/systems has the drivers of external systems, package gate/release
// restores what is masked. This package decides nothing itself.
package gate
