package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
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

// TestRestartHeld: what one replica refused before an intent is held by each of them after it, also after all were killed,
// until it is approved (KR-05-66).
func TestRestartHeld(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "kept", options{replicas: 2})
	s := newFixture(t, f, "kept")
	s.settled("part")
	id := mustRefuse(t, s.count(s.ctrl, "part", 5), "Drift")
	wait.For(t, "the Drift to record what is held", wait.Patience, func(ctx context.Context) error {
		d, err := s.hans.Resource(drifts).Namespace(s.ns).Get(ctx, id, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if held, _, _ := unstructured.NestedStringMap(d.Object, "status", "held", "drift"); held["spec.count"] == "" {
			return fmt.Errorf("its status is %v", d.Object["status"])
		}
		return nil
	})
	for i := range f.replicas {
		f.crash(i)
	}
	for i := range f.replicas {
		f.restart(i)
	}
	s.intent(2)
	for range parallel { // each replica answers some of them
		err := s.count(s.ctrl, "part", 5)
		if got := mustRefuse(t, err, "Drift"); got != id || !strings.Contains(err.Error(), "held before the last intent") {
			t.Fatalf("the id is %s, want %s: %v", got, id, err)
		}
	}
	f.proxy.spread(t)
	s.annotate(map[string]any{v1alpha1.AnnotationKeyApprovePrefix + id: "once"})
	s.intent(3) // and the approval is kept
	require.NoError(t, s.count(s.ctrl, "part", 5))
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
