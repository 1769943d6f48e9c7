package view

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/internal/pause"
)

const (
	// gatherFor is how long changes are gathered before what waits is read again.
	gatherFor = 100 * time.Millisecond
	// restPart of the time that this took is how long it then rests at least: it takes at most two thirds of a core.
	restPart = 2
)

// Follow follows the cluster until ctx ends or nothing is shown any more: what waits is read again once a watch has reported something, once wake has a
// value, and every few seconds for what no watch reports. changed is called once the list differs; nothing is followed meanwhile. There is one Follow at a
// time.
func (r *reader) Follow(ctx context.Context, idle func() bool, wake <-chan struct{}, changed func()) {
	defer r.lister.watches.watch(ctx, nil) //nolint:errcheck // It begins none.
	defer r.live.Store(false)
	tick := time.NewTicker(freshFor)
	defer tick.Stop()
	r.begin(ctx)
	signalled := uint64(0)
	if have := r.have.Load(); have != nil {
		signalled = have.Sum
	}
	for !idle() {
		began := clock.Now()
		if sum := r.refreshed(ctx); sum != signalled { // also where another request has read it meanwhile
			signalled = sum
			changed()
		}
		if !pause.For(ctx, gatherFor+clock.Since(began)/restPart) {
			return
		}
		select {
		case <-r.lister.watches.changed: // gathered while it rested
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-r.lister.watches.changed:
			if !pause.For(ctx, gatherFor) {
				return
			}
		case <-tick.C:
		case <-wake:
		}
	}
}

// begin begins to watch before what waits is read again, where it is known which Namespaces the user may list: it is not listed twice then.
func (r *reader) begin(ctx context.Context) {
	if have := r.have.Load(); have == nil || have.Away != nil {
		return
	}
	r.mu.Lock()
	err := r.watch(ctx)
	r.mu.Unlock()
	if err == nil { // else it is read, and why is shown
		r.lister.watches.begun(ctx)
	}
}

// watch watches what the user may list. mu is held.
func (r *reader) watch(ctx context.Context) error {
	spaces := r.lister.spaces
	if spaces == nil {
		spaces = []string{metav1.NamespaceAll}
	}
	return r.lister.watches.watch(ctx, spaces)
}

// refreshed reads what waits again, and returns the sum of what is shown from then on; zero where nothing is known.
func (r *reader) refreshed(ctx context.Context) uint64 {
	reading, cancel := context.WithTimeout(ctx, ReadFor)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.again(reading)
	if s == nil {
		return 0 // Pending returns why
	}
	r.live.Store(true)
	if err == nil {
		if err := r.watch(ctx); err != nil {
			slower := *s // others read the one that is stored
			slower.Unread = append(slices.Clone(s.Unread), "It is read every few seconds: "+err.Error())
			r.have.Store(&slower)
		}
	}
	return s.Sum
}
