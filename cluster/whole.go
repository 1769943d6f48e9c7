package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// wholes are what the deletions of composites and Claims delete, as read last. A composite has many managed resources, and the gate of each
// needs all of them.
type wholes struct{ cache *utilcache.LRUExpireCache }

const (
	maxWholes = 256
	// wholeTTL is for how long an answer is used. A managed resource that joined meanwhile is not one of them.
	wholeTTL = time.Minute
)

// wholeOf a version of a composite or Claim: an approval is a change of it.
type wholeOf struct {
	uid     types.UID
	version string
}

func newWholes() *wholes { return &wholes{utilcache.NewLRUExpireCache(maxWholes)} }

// whole is what the deletion of a composite or Claim deletes; false where it cannot be read, and no approval of it counts.
func (c *Cluster) whole(ctx context.Context, root *parent.State) (identity.Whole, bool) {
	key := wholeOf{root.UID, root.ResourceVersion}
	if w, ok := c.wholes.cache.Get(key); ok {
		return w.(identity.Whole), true
	}
	below, err := c.Managed(ctx, root)
	if err != nil {
		return identity.Whole{}, false
	}
	w := identity.WholeOf(root, below)
	c.wholes.cache.Add(key, w, wholeTTL)
	return w, true
}
