package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/cluster"
)

const (
	// removalSettles is how long webhook and gate are given to learn that
	// Kausality is being removed; it is longer than a request may take that was
	// under way then.
	removalSettles = 5 * time.Second
	removalEvery   = time.Second
)

// Remove restores as Ungate does, for good, with webhook and gate running in
// whatever mode: they are told first, by a mark on the webhook configuration, that
// nothing is to be masked any more. It goes on until a look that began long
// enough after that finds nothing masked. Where the context ends before, the error
// says what stood in the way last.
//
// The mark stays: it goes with the installation. It may be run again, and by
// several at once.
func Remove(ctx context.Context, u Ungating) (Ungated, error) {
	c, err := dynamic.NewForConfig(u.Config)
	if err != nil {
		return Ungated{}, fmt.Errorf("cannot make a client: %w", err)
	}
	r := removal{Ungating: u, now: time.Now}
	for {
		over, err := r.look(ctx, c)
		if over {
			return r.done, cluster.ForgetRemoval(ctx, c)
		}
		select {
		case <-ctx.Done():
			return r.done, fmt.Errorf("cannot restore everything: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(removalEvery):
		}
	}
}

// removal that is under way.
type removal struct {
	Ungating
	now func() time.Time
	// since is when the mark was first seen here.
	since time.Time
	done  Ungated
	// said is what went wrong last, which is tried again.
	said string
}

// look once, and restore what is masked. A mark that somebody took away is set
// again, and time begins anew.
func (r *removal) look(ctx context.Context, c dynamic.Interface) (over bool, err error) {
	already, err := cluster.MarkRemoval(ctx, c, r.now())
	if err != nil {
		return false, err
	}
	if !already || r.since.IsZero() {
		r.since = r.now()
	}
	settled := r.now().Sub(r.since) >= removalSettles
	found, err := Ungate(ctx, r.Ungating)
	r.done.Masked = max(r.done.Masked, found.Masked)
	r.done.Pending = max(r.done.Pending, found.Pending)
	r.done.Restored += found.Restored
	r.done.Unread = found.Unread
	if err != nil && err.Error() != r.said {
		r.said = err.Error()
		r.say("%s\n", r.said)
	}
	return err == nil && found.Masked == 0 && settled, err
}
