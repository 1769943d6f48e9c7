package integration

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestLeaderThatIsNeverAsked: the API server keeps to one connection, so that
// the leader may never hear of a parent. Still it settles, its approval is used
// up, and another replica refuses what this one would.
func TestLeaderThatIsNeverAsked(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "pinned", options{replicas: 2})
	follower := f.awaitFollower()
	f.proxy.pinned.Store(int64(follower + 1))
	s := newSite(t, f, "pinned")
	s.settled("one", "two")
	s.wildcard(100)
	won := together(2, func(i int) error { return s.count(s.ctrl, []string{"one", "two"}[i], 1) })
	if won.n != 1 {
		t.Fatalf("%d changes passed by one once approval: %v", won.n, won.refusals)
	}
	s.finished(1)
	f.proxy.pinned.Store(int64(2 - follower))
	mustRefuse(t, s.count(s.ctrl, "one", 2), "Drift")
}

// awaitFollower returns the one of two replicas that does not lead.
func (f *fleet) awaitFollower() (i int) {
	f.t.Helper()
	const leads = "leader_election_master_status"
	eventually(f.t, "a leader", 30*time.Second, func(context.Context) error {
		for i = range f.replicas {
			if f.replicas[1-i].metric(f.t, leads) == 1 && f.replicas[i].metric(f.t, leads) == 0 {
				return nil
			}
		}
		return errors.New("nobody leads")
	})
	return i
}
