package gate

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

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

// lease is the name of the Lease that elects the shard's leader.
func (s Shard) lease() string {
	if s.Count < 2 {
		return v1alpha1.ManagerGate
	}
	return fmt.Sprintf("%s-%d-of-%d", v1alpha1.ManagerGate, s.Index, s.Count)
}
