package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestRestartBeforeSettling: what is expected stays expected, and the App
// settles afterwards.
func TestRestartBeforeSettling(t *testing.T) {
	t.Parallel()
	s := newFixture(t, startFleet(t, "unsettled", options{replicas: 1}), "unsettled")
	s.part("part")
	require.NoError(t, s.count(s.ctrl, "part", 1))
	s.reborn(0)
	require.NoError(t, s.count(s.ctrl, "part", 2))
	s.observe()
	s.awaitLatch()
	mustRefuse(t, s.count(s.ctrl, "part", 3), "Drift")
}

// TestRestartLatched: drift is refused by the very first request after it, an
// intent opens the window again, and after it the same once more.
func TestRestartLatched(t *testing.T) {
	t.Parallel()
	s := newFixture(t, startFleet(t, "restart", options{replicas: 1}), "restart")
	s.settled("part")
	s.reborn(0)
	mustRefuse(t, s.count(s.ctrl, "part", 1), "Drift")
	require.NoError(t, s.count(s.alice(), "part", 2)) // another user is a new origin, as before
	s.intent(2)
	s.reborn(0)
	require.NoError(t, s.count(s.ctrl, "part", 3))
	s.observe()
	s.awaitLatch()
	// A condition that flaps does not open the window, also not across a restart.
	s.status("False")
	s.reborn(0)
	mustRefuse(t, s.count(s.ctrl, "part", 4), "Drift")
}

// TestRestartSettledUnlatched: the App settles while we are down; the very
// first change after the restart is drift, although only the App's own status
// shows it.
func TestRestartSettledUnlatched(t *testing.T) {
	t.Parallel()
	s := newFixture(t, startFleet(t, "offline", options{replicas: 1}), "offline")
	s.part("part")
	s.crash(0)
	s.observe() // failurePolicy Ignore lets a status pass while we are down
	s.restart(0)
	mustRefuse(t, s.count(s.ctrl, "part", 1), "Drift")
	s.awaitLatch()
	mustRefuse(t, s.count(s.ctrl, "part", 1), "Drift")

	// The same with an intent that we did not see: its hop is missing. One that is
	// made within five seconds of the last is not distinguished from it (trace.Intent).
	wait.For(t, "the last intent to be old enough", wait.Patience, func(context.Context) error {
		hop, err := hopOf(s.get())
		if age := time.Since(hop.Timestamp.Time); err == nil && age < 7*time.Second {
			err = fmt.Errorf("it is %s old", age)
		}
		return err
	})
	s.crash(0)
	s.unguarded(func() error {
		_, err := s.apps(s.hans).Patch(t.Context(), "app", types.MergePatchType, []byte(`{"spec":{"size":7}}`), metav1.PatchOptions{})
		return err
	}, func() { s.observe(); s.restart(0) })
	mustRefuse(t, s.count(s.ctrl, "part", 2), "Drift")
	wait.For(t, "the unattributed hop", wait.Patience, func(context.Context) error {
		hop, err := hopOf(s.get())
		if err == nil && (!hop.Unattributed || hop.Generation != 2) {
			err = fmt.Errorf("the hop is %+v", hop)
		}
		return err
	})
}
