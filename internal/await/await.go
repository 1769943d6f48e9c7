package await

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	// limit of a wait. What is waited for takes milliseconds; no machine is so busy that it takes a minute.
	limit = time.Minute
	// pollInterval of Poll.
	pollInterval = 5 * time.Millisecond
)

// Signal wakes those who wait for a condition. The zero value is ready, and it is safe for concurrent use.
type Signal struct {
	mu     sync.Mutex
	raised chan struct{}
}

// Raise the signal: something has changed. It is the last thing that a change does, so that who is woken sees it.
func (s *Signal) Raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raised != nil {
		close(s.raised)
		s.raised = nil
	}
}

// next is closed when the signal is raised again.
func (s *Signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raised == nil {
		s.raised = make(chan struct{})
	}
	return s.raised
}

// Until is true; it is called at once, and whenever the signal was raised. what completes the sentence "waited for …".
func (s *Signal) Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		raised := s.next()
		if is() {
			return
		}
		select {
		case <-raised:
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", limit, what)
		}
	}
}

// Next value of a channel, which is not to be closed before.
func Next[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatalf("there is none of %s any more", what)
		}
		return v
	case <-ctx.Done():
		t.Fatalf("waited %s for %s", limit, what)
	}
	panic("not reached")
}

// Closed waits until a channel is closed; what it has before is dropped.
func Closed[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		select {
		case _, ok := <-c:
			if !ok {
				return
			}
		case <-ctx.Done():
			t.Fatalf("waited %s for the end of %s", limit, what)
		}
	}
}

// Poll until is returns true, for what no signal is raised for: informers, goroutines and memory.
func Poll(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", limit, what)
		}
	}
}

// Sleep until a time of a bubble of testing/synctest has passed, and all other goroutines there have done what they do until then. It panics
// outside of a bubble, where no test is to sleep.
func Sleep(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}
