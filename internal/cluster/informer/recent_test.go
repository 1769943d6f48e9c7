package informer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kausality-io/function-kausality/internal/await"
)

// TestRecent: who needs a thing at once shares one read of it, which is used for five seconds from its beginning on; one that failed
// is repeated after a second, and one that does not end is an error in time (KR-13-74).
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		var failure error
		takes := time.Second
		r := NewRecent(func(ctx context.Context) (int64, error) {
			select {
			case <-time.After(takes): //nolint:forbidigo // The time of a bubble.
				return reads.Add(1), failure
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		get := func(want int64) {
			t.Helper()
			got, err := r.Get(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, want, got)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { get(1) })
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := r.Get(impatient)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "who waits no longer gets no answer")
		all.Wait()
		await.Sleep(FreshFor - takes - time.Millisecond)
		get(1)
		await.Sleep(time.Millisecond)
		get(2)

		await.Sleep(FreshFor)
		failure = errors.New("down")
		for range 3 {
			_, err = r.Get(t.Context())
			assert.ErrorIs(t, err, failure)
		}
		assert.EqualValues(t, 3, reads.Load(), "a failed read is not repeated at once")
		await.Sleep(failedFor)
		takes, failure = time.Hour, nil
		began := time.Now()
		_, err = r.Get(t.Context())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, LiveTimeout, time.Since(began))
	})
}

// TestRecentPanics: a panic of a read is its error (KR-13-02).
func TestRecentPanics(t *testing.T) {
	r := NewRecent(func(context.Context) (int, error) { panic("no") })
	_, err := r.Get(t.Context())
	assert.ErrorContains(t, err, "panic: no")
}
