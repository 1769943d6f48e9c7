package webhook

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	freshRounds = 60
	lanes       = 4
)

// TestLatchAfterSettling: a child that is written at once after its parent's intent is
// never refused, and one that is written at once after the parent settled is
// counted where it still passes: the latch is asynchronous.
func TestLatchAfterSettling(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "fresh", options{replicas: 2})
	var late atomic.Int64
	var wg sync.WaitGroup
	sites := make([]*fixture, 0, lanes)
	for i := range lanes {
		s := newFixture(t, f, fmt.Sprintf("fresh-%d", i))
		s.settled("part")
		sites = append(sites, s)
	}
	var firstErr atomic.Pointer[error]
	for _, s := range sites {
		wg.Go(func() {
			for round := 1; round <= freshRounds/lanes; round++ {
				if err := s.freshRound(round, &late); err != nil {
					firstErr.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := firstErr.Load(); err != nil {
		t.Fatal(*err)
	}
	f.proxy.spread(t)
	fmt.Printf("freshness: %d rounds each way against 2 replicas: 0 wrong refusals after an intent, %d wrong admissions right after "+
		"settling\n", freshRounds, late.Load())
}

// freshRound: intent, child at once; settled, child at once; latched, child.
func (s *fixture) freshRound(round int, late *atomic.Int64) error {
	s.intent(round + 1)
	if err := s.count(s.ctrl, "part", 10*round); err != nil {
		return fmt.Errorf("round %d: refused right after the intent that it follows: %w", round, err)
	}
	s.observe()
	err := s.count(s.ctrl, "part", 10*round+1)
	if err == nil {
		late.Add(1)
	} else if !refused(err, "Drift") {
		return fmt.Errorf("round %d: %w", round, err)
	}
	s.awaitLatch()
	if err := s.count(s.ctrl, "part", 10*round+2); !refused(err, "Drift") {
		return fmt.Errorf("round %d: want a refusal Drift once it is latched, got %s", round, fmt.Sprint(err))
	}
	return nil
}
