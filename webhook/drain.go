package webhook

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// drain is the end of a replica in two steps, so that no review is lost to it:
// first it says that it is not ready, and goes on answering while its address is
// taken out of the Service; then the server stops, which tells the connections
// that are left to go elsewhere.
type drain struct {
	delay  time.Duration
	ending atomic.Bool
}

var errEnding = errors.New("this replica is ending")

// after returns a context that ends the delay after ctx does.
func (d *drain) after(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		d.ending.Store(true)
		time.AfterFunc(d.delay, cancel)
	})
	return late, func() { stop(); cancel() }
}

// ready is a readiness check.
func (d *drain) ready(*http.Request) error {
	if d.ending.Load() {
		return errEnding
	}
	return nil
}
