package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	liveReads = "kausality_live_reads_total"
)

// TestLiveReadsOfAReplica: no read of the API server on the allowed path once the cache is
// warm, and exactly one before each refusal. It runs alone: each leader resolves
// the Drifts of the whole cluster, and a real one has one leader (KR-05-20).
func TestLiveReadsOfAReplica(t *testing.T) {
	f := startFleet(t, "reads", options{replicas: 1})
	s := newFixture(t, f, "reads")
	s.part("part")
	n := 0
	allowed := func() error { n++; return s.count(s.ctrl, "part", n) }
	s.warm(allowed)

	const many = 50
	before := f.replicas[0].metric(t, liveReads)
	for range many {
		require.NoError(t, allowed())
		require.NoError(t, s.count(s.ctrl, "part", n)) // no change
		require.NoError(t, s.count(s.alice(), "part", n+1000))
	}
	if got := f.replicas[0].metric(t, liveReads) - before; got != 0 {
		t.Errorf("%d allowed requests with a warm cache made %.0f live reads, want none", 3*many, got)
	}

	s.settled()
	// Dry-runs: they leave no Drifts, which the leader would read for in the
	// background.
	drift := func() { mustRefuse(t, s.count(s.ctrl, "part", 77, metav1.DryRunAll), "Drift") }
	drift()
	before = f.replicas[0].metric(t, liveReads)
	for range many {
		drift()
	}
	if got := f.replicas[0].metric(t, liveReads) - before; got != many {
		t.Errorf("%d refusals made %.0f live reads, want one each", many, got)
	}
}

// calm is for how long requests make no live read until the cache is warm: what the webhook writes to a parent after its first child, beside
// requests, reads that parent live.
const calm = 3 * time.Second

// warm until requests have made no live read for a while.
func (s *fixture) warm(request func() error) {
	s.t.Helper()
	last, since := s.replicas[0].metric(s.t, liveReads), time.Now()
	wait.For(s.t, "a warm cache", wait.Patience, func(context.Context) error {
		if err := request(); err != nil {
			return err
		}
		if now := s.replicas[0].metric(s.t, liveReads); now != last {
			last, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < calm {
			return fmt.Errorf("the last live read was %s ago", quiet)
		}
		return nil
	})
}
