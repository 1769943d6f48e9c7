package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// TestFresh: while the heartbeat is late a parent is read live, at most once in five seconds; an error is no answer (KR-13-24).
func TestFresh(t *testing.T) {
	clock := &settable{time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	late, reads := false, 0
	var failure error
	f := &Fresh{late: func() bool { return late }, reads: utilcache.NewLRUExpireCacheWithClock(10, clock)}
	f.get = func(_ context.Context, _ parent.Ref, live bool) (*states.Object, error) {
		if live {
			reads++
		}
		return &states.Object{}, failure
	}
	get := func(live bool, want int) {
		t.Helper()
		_, err := f.Get(t.Context(), parent.Ref{Name: "app"}, live)
		assert.ErrorIs(t, err, failure)
		assert.Equal(t, want, reads)
	}
	get(false, 0)
	late = true
	get(false, 1)
	get(false, 1)
	get(true, 2)
	clock.at = clock.at.Add(informer.FreshFor + time.Millisecond)
	get(false, 3)
	clock.at = clock.at.Add(informer.FreshFor + time.Millisecond)
	failure = errors.New("down")
	get(false, 4)
	get(false, 5)
}

// settable clock.
type settable struct{ at time.Time }

func (c *settable) Now() time.Time { return c.at }
