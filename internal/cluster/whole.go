package cluster

import (
	"context"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// wholes are what the deletions of composites, Claims and instances delete, as read last. A composite has many managed resources, and the gate of each
// needs all of them.
type wholes struct{ cache *utilcache.LRUExpireCache }

const (
	maxWholes = 256
	// wholeTTL is for how long an answer is used. A managed resource that joined meanwhile is not one of them.
	wholeTTL = time.Minute
)

// wholeOf a version of a composite, Claim or instance, since an approval is a change of it, with what is directly below: one that
// joins need not change it.
type wholeOf struct {
	uid     types.UID
	version string
	below   uint64
}

// sumOf references, in any order.
func sumOf(refs []parent.Ref) (sum uint64) {
	for _, r := range refs {
		h := fnv.New64a()
		_, _ = h.Write([]byte(r.Kind + "." + r.Group + "/" + r.Namespace + "/" + r.Name)) // never fails
		sum += h.Sum64()
	}
	return sum
}

func newWholes() *wholes { return &wholes{utilcache.NewLRUExpireCache(maxWholes)} }

// whole returns what the deletion of a composite, Claim or instance deletes; false where it cannot be read, and no approval of it counts.
func (c *Cluster) whole(ctx context.Context, root *parent.State) (identity.Whole, bool) {
	key := wholeOf{root.UID, root.ResourceVersion, sumOf(c.Below(root))}
	var w identity.Whole
	if cached, ok := c.wholes.cache.Get(key); ok {
		w = cached.(identity.Whole)
	} else {
		below, err := c.Managed(ctx, root)
		if err != nil {
			return identity.Whole{}, false
		}
		w = identity.WholeOf(root, below)
		w.Below = nil
		c.wholes.cache.Add(key, w, wholeTTL)
	}
	w.Below = func() ([]*parent.State, bool) {
		below, err := managedOf(ctx, c, root, false)
		return below, err == nil
	}
	w.NamespaceLabels = func(name string) map[string]string {
		ns, _ := c.Namespaces.Get(ctx, name, false) // where it cannot be read, its labels are not known
		return ns.Labels
	}
	return w, true
}

// wholeLater returns a function that calls whole.
func wholeLater(ctx context.Context, c *Cluster, root *parent.State) func() (identity.Whole, bool) {
	return func() (identity.Whole, bool) { return c.whole(ctx, root) }
}
