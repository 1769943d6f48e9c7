package gate

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
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

// ours reports whether this process reconciles an object. All shards reconcile the holders
// of approvals, each for its own objects below them.
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

// Shard is one of several groups of gate processes that share the gated objects;
// the zero Shard has all objects. A process keeps no state of gates that is not
// stored in the cluster, so that objects may move between shards. Each shard
// elects its own leader (KR-12-07).
type Shard struct{ Index, Count uint32 }

// ParseShard reads INDEX/COUNT, as in 0/3; "" is the zero Shard.
func ParseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	index, count, _ := strings.Cut(text, "/")
	i, err1 := strconv.ParseUint(index, 10, 16)
	n, err2 := strconv.ParseUint(count, 10, 16)
	if err1 != nil || err2 != nil || i >= n {
		return Shard{}, fmt.Errorf("%q must be INDEX/COUNT, as in 0/3: the index counts from 0", text)
	}
	return Shard{Index: uint32(i), Count: uint32(n)}, nil
}

// Takes reports whether an object is this shard's. The version of its kind does not
// matter (KR-12-07).
func (s Shard) Takes(ref parent.Ref) bool {
	if s.Count < 2 {
		return true
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%s/%s", ref.Group, ref.Kind, ref.Namespace, ref.Name) // a hash accepts every write
	return h.Sum32()%s.Count == s.Index
}

// lease returns the name of the Lease that elects the shard's leader.
func (s Shard) lease() string {
	if s.Count < 2 {
		return v1alpha1.ManagerGate
	}
	return fmt.Sprintf("%s-%d-of-%d", v1alpha1.ManagerGate, s.Index, s.Count)
}
