package serving

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// Drain ends a replica in two steps, so that no review is lost. First it is not ready and answers each
// connection once more, while its address is removed from the Service; then the server stops. Over
// HTTP/1.1 a connection that is closed while a review is on its way is a failed call.
type Drain struct {
	// Delay between the two steps; 0 for none.
	Delay  time.Duration
	ending atomic.Bool
}

var errEnding = errors.New("this replica is ending")

// After returns a context that ends Delay after ctx does.
func (d *Drain) After(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		d.ending.Store(true)
		time.AfterFunc(d.Delay, cancel)
	})
	return late, func() { stop(); cancel() }
}

// Handler closes connections with their answers while the replica ends: the client opens another one
// for its next review, which leads to another replica.
func (d *Drain) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Ready is a readiness check.
func (d *Drain) Ready(*http.Request) error {
	if d.ending.Load() {
		return errEnding
	}
	return nil
}
