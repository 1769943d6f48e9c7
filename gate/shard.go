package gate

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
)

// Shard is one of several gate processes that share the gated objects; the zero
// Shard has all of them. Nothing is kept between two objects but what stands in
// the cluster, so that it does not matter who has which. Each shard has a leader of
// its own.
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

// Takes reports whether an object is this shard's, whatever version of its kind
// it is seen in.
func (s Shard) Takes(ref parent.Ref) bool {
	if s.Count < 2 {
		return true
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%s/%s", ref.Group, ref.Kind, ref.Namespace, ref.Name) // a hash takes everything
	return h.Sum32()%s.Count == s.Index
}

// lease by which the leader of the shard is elected.
func (s Shard) lease() string {
	if s.Count < 2 {
		return v1alpha1.ManagerGate
	}
	return fmt.Sprintf("%s-%d-of-%d", v1alpha1.ManagerGate, s.Index, s.Count)
}

// ours reports whether a gated object is this process's. Everybody looks at what
// holds approvals, each for the objects below it.
func (c *Controller) ours(ref parent.Ref) bool {
	return c.Shard.Takes(ref) || !c.managed(ref) && systems.For(ref.GroupVersionKind) == nil
}

// enqueue an object to be looked at: the one way into the queue.
func (c *Controller) enqueue(ref parent.Ref) {
	if ref = withoutUID(ref); c.ours(ref) {
		c.queue.Add(ref)
	}
}
