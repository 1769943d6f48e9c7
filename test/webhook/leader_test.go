package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestLeaderWithoutRequests: the API server keeps to few connections, so that
// the leader may get no review of a parent. Still it settles, its approval is used
// up, and both replicas refuse the same changes (KR-03-06, KR-12-07).
func TestLeaderWithoutRequests(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "pinned", options{replicas: 2})
	follower := f.awaitFollower()
	f.proxy.pinned.Store(int64(follower + 1))
	s := newFixture(t, f, "pinned")
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

// TestStatusesOnAnotherReplica: the API server keeps connections of their own for changes
// and for statuses, which may lead to two replicas for good. One of them knows the
// writer of the status of an object without knowing that it is a parent, the other
// the reverse. Still the controller is recorded, whichever replica leads, and the
// child of another parent is not taken for one of its own.
func TestStatusesOnAnotherReplica(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "apart", options{replicas: 2})
	follower := f.awaitFollower()
	f.proxy.apart.Store(true)
	for i, pinned := range []int{follower, 1 - follower} {
		f.proxy.pinned.Store(int64(pinned + 1))
		s := newFixture(t, f, fmt.Sprintf("apart-%d", i))
		s.settled("part")
		wait.Often(t, "the controller to be recorded", 30*time.Second, func() error {
			if s.get().GetAnnotations()[v1alpha1.AnnotationKeyControllers] == "" {
				return errors.New("none is")
			}
			return nil
		})
		mustRefuse(t, s.count(s.ctrl, "part", 1), "Drift")
		_, err := s.of(s.hans).Create(t.Context(), s.owned(object(s.name, "Part", s.ns, "extra", map[string]any{"count": int64(0)})), metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// awaitFollower returns the one of two replicas that does not lead.
func (f *fleet) awaitFollower() (i int) {
	f.t.Helper()
	const leads = "leader_election_master_status"
	wait.For(f.t, "a leader", 30*time.Second, func(context.Context) error {
		for i = range f.replicas {
			if f.replicas[1-i].metric(f.t, leads) == 1 && f.replicas[i].metric(f.t, leads) == 0 {
				return nil
			}
		}
		return errors.New("no replica leads")
	})
	return i
}
