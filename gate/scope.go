package gate

import (
	"sync/atomic"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// scope is what this process reconciles. It is safe for concurrent use.
type scope struct {
	cluster *cluster.Cluster
	shard   Shard
	// leading is true while the controllers run.
	leading atomic.Bool
	// queue of the gated objects, and of those that hold approvals for them.
	queue *queue
}

// wakesHere reports whether this process wakes composites: the leader of the first shard does.
func (s *scope) wakesHere() bool { return s.leading.Load() && s.shard.Index == 0 }

// managed reports whether an object has managementPolicies, which the gate masks.
func (s *scope) managed(ref parent.Ref) bool {
	return s.cluster.Kinds.Kind(ref.GroupVersionKind).ManagementPolicies
}

// ours reports whether this process reconciles an object. Holders of approvals are
// reconciled by all shards, each for its objects below them.
func (s *scope) ours(ref parent.Ref) bool {
	return s.shard.Takes(ref) || !s.managed(ref) && systems.For(ref.GroupVersionKind) == nil
}

// enqueue an object for the gates' controller, if it is this shard's.
func (s *scope) enqueue(ref parent.Ref) {
	if s.ours(ref) {
		s.queue.add(ref)
	}
}

// recheckAll gated objects, because rules changed that are about all of them.
func (s *scope) recheckAll() { s.recheck(func(*states.Object) bool { return true }) }

// recheck the gated objects that f selects.
func (s *scope) recheck(f func(*states.Object) bool) {
	for _, i := range s.cluster.Kinds.All() {
		if !i.Kind.ManagementPolicies && systems.For(i.GVK) == nil {
			continue
		}
		for _, o := range s.cluster.States.List(i.GVK) {
			if f(o) {
				s.enqueue(o.State.Ref)
			}
		}
	}
}
