package informer

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// FreshFor is how long the result of a live read is used for what a late watch may not show.
const FreshFor = 5 * time.Second

// liveTimeout bounds a read past the cache.
const LiveTimeout = 1500 * time.Millisecond

// failedFor is how long a failed read is not tried again.
const failedFor = time.Second

// Recent is something that is read from the API server for all who need it at once, at most once in FreshFor (KR-13-74). It is safe
// for concurrent use.
type Recent[T any] struct {
	read   func(context.Context) (T, error)
	now    func() time.Time
	flight singleflight.Group
	last   atomic.Pointer[recentRead[T]]
}

// recentRead is what a read returned, and until when that is used.
type recentRead[T any] struct {
	until time.Time
	value T
	err   error
}

// NewRecent returns a Recent that has read nothing yet.
func NewRecent[T any](read func(context.Context) (T, error)) *Recent[T] {
	return &Recent[T]{read: read, now: time.Now}
}

// Get returns what was stored at most FreshFor ago. An error means that it cannot be read.
func (r *Recent[T]) Get(ctx context.Context) (T, error) {
	if last := r.known(); last != nil {
		return last.value, last.err
	}
	done := r.flight.DoChan("", func() (any, error) {
		last := r.known() // which the read that ended meanwhile may have left
		if last == nil {
			last = r.again(context.WithoutCancel(ctx)) // for others, too
			r.last.Store(last)
		}
		return last, nil
	})
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case result := <-done:
		last, _ := result.Val.(*recentRead[T])
		return last.value, last.err
	}
}

// known returns the last read, while it is used; nil for none.
func (r *Recent[T]) known() *recentRead[T] {
	if last := r.last.Load(); last != nil && r.now().Before(last.until) {
		return last
	}
	return nil
}

// again reads. A panic is an error: it would end the process.
func (r *Recent[T]) again(ctx context.Context) (out *recentRead[T]) {
	out = &recentRead[T]{until: r.now().Add(FreshFor)} // from its beginning on: what is stored later it need not have
	defer func() {
		if p := recover(); p != nil {
			out.err = fmt.Errorf("panic: %v", p)
		}
		if out.err != nil {
			out.until = r.now().Add(failedFor)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, LiveTimeout)
	defer cancel()
	out.value, out.err = r.read(ctx)
	return out
}
