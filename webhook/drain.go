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
// taken out of the Service, each connection once; then the server stops. The API
// server speaks HTTP/1.1 to a Service, in which a connection that is closed while
// a review is on its way is a call that failed.
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

// last answers of a replica that ends close their connections: the client opens
// another one for its next review, which leads to another replica.
func (d *drain) last(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// ready is a readiness check.
func (d *drain) ready(*http.Request) error {
	if d.ending.Load() {
		return errEnding
	}
	return nil
}
