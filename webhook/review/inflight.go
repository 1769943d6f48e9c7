package review

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// MaxReview is the size of the largest review, in bytes: two objects of 3 MiB, which is the most that the API
	// server accepts, each byte of them escaped with 6, as < is, and the fields around them.
	MaxReview = 40 << 20
	// maxInflight is how much the reviews take together that are being answered, in bytes (KR-13-28).
	maxInflight = 64 << 20
	// smallReview is the size up to which reviews do not wait for larger ones, in bytes. They have smallShare for
	// themselves.
	smallReview = 256 << 10
	smallShare  = 16 << 20
	largeShare  = maxInflight - smallShare
	// expansion is how many bytes a byte of a review usually takes, with the values that are read from it.
	expansion = 4
	// perObject and perList are what an object and a list of one value take at least.
	perObject, perList = 300, 40
	// MaxWait for earlier reviews, where the API server announces no timeout.
	MaxWait = time.Second
)

// Inflight bounds the memory of the reviews that are being answered (KR-13-28).
type Inflight struct {
	small, large *semaphore.Weighted
	// dense reviews consist of very many values, which take many times what they have in bytes: one at a time.
	dense *semaphore.Weighted
}

// NewInflight returns a limit of the bytes that are decided about at a time.
func NewInflight() *Inflight {
	return &Inflight{small: semaphore.NewWeighted(smallShare), large: semaphore.NewWeighted(largeShare), dense: semaphore.NewWeighted(1)}
}

// take the memory for a review before it is read, by the length that the client announces; the largest without
// one.
func (f *Inflight) take(ctx context.Context, r *http.Request) (release func(), err error) {
	length := r.ContentLength
	if length < 0 || length > MaxReview {
		length = MaxReview
	}
	share, weight := f.large, min(length*expansion, largeShare)
	if length <= smallReview {
		share, weight = f.small, length*expansion
	}
	ctx, cancel := context.WithTimeout(ctx, waitFor(r))
	defer cancel()
	if err := share.Acquire(ctx, weight); err != nil {
		return nil, fmt.Errorf("the reviews in flight take too much memory for another one of %d bytes: %w", length, err)
	}
	return func() { share.Release(weight) }, nil
}

// TakeDense waits until no other review is read that takes much more memory than its bytes. A review that does not
// is not held up.
func (f *Inflight) TakeDense(ctx context.Context, r *http.Request, body []byte) (release func(), err error) {
	if len(body) <= smallReview || perObject*bytes.Count(body, []byte("{"))+perList*bytes.Count(body, []byte("[")) < largeShare/2 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitFor(r))
	defer cancel()
	if err := f.dense.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("another review with as many values is in flight: %w", err)
	}
	return func() { f.dense.Release(1) }, nil
}

// waitFor earlier reviews: a third of the timeout that the API server announces, so that there is time to answer.
func waitFor(r *http.Request) time.Duration {
	if d, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && d > 0 {
		return d / 3
	}
	return MaxWait
}
