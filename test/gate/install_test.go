package gate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestInstall: managed resources that existed before the installation are masked
// at a limited rate, and only idle ones: none that is paused, and none that its
// provider has not created (KR-08-18).
func TestInstall(t *testing.T) {
	t.Parallel()
	const n = 25
	s := newFixture(t, "install")
	s.logMode()
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, s.lone(fmt.Sprintf("db-%02d", i), 5))
	}
	paused := s.lone("paused", 5)
	s.awaitReady(append(names, paused))
	s.annotate(databases, paused, "crossplane.io/paused", "true")
	s.mode("null")
	var first, last time.Time
	for _, name := range names {
		s.awaitClosed(name)
		g := gateOf(s.mr(name))
		if g.Reason != "Installed" {
			t.Errorf("%s is %+v", name, g)
		}
		if first.IsZero() || g.At.Time.Before(first) {
			first = g.At.Time
		}
		if g.At.After(last) {
			last = g.At.Time
		}
	}
	// Ten at once, and ten a second from then on; whole seconds are stored.
	if spread := last.Sub(first); spread < time.Second {
		t.Errorf("%d were masked within %s", n, spread)
	}
	if a := s.mr(paused).GetAnnotations(); a[v1alpha1.AnnotationKeyGate] != "" {
		t.Errorf("a paused one was masked: %v", a)
	}
}

// TestInstallTakesTurns: many managed resources of one Namespace that are to be masked
// do not delay what is to be closed in another (KR-13-47).
func TestInstallTakesTurns(t *testing.T) {
	t.Parallel()
	const n = 60
	many, one := newFixture(t, "install-many"), newFixture(t, "install-one")
	many.logMode()
	one.logMode()
	names := make([]string, 0, n)
	for i := range n {
		names = append(names, many.lone(fmt.Sprintf("db-%02d", i), 5))
	}
	single := one.lone("db", 5)
	many.awaitReady(names)
	one.awaitReady([]string{single})
	many.mode("null")
	one.mode("null")
	one.awaitClosed(single)
	var last time.Time
	for _, name := range names {
		many.awaitClosed(name)
		if at := gateOf(many.mr(name)).At.Time; at.After(last) {
			last = at
		}
	}
	if at := gateOf(one.mr(single)).At.Time; !at.Before(last) {
		t.Errorf("it was masked at %s, when all %d of the other Namespace were, the last at %s", at, n, last)
	}
}

// mode of the Namespace, as JSON.
func (s *fixture) mode(value string) {
	s.t.Helper()
	_, err := s.hans.Resource(namespaces).Patch(s.t.Context(), s.ns, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"kausality.io/mode":`+value+`}}}`), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// logMode of the Namespace, which holds when it returns.
func (s *fixture) logMode() {
	s.t.Helper()
	s.mode(`"log"`)
	wait.For(s.t, "log mode to hold", wait.Patience, func(context.Context) error {
		name := s.lone(fmt.Sprintf("probe-%d", time.Now().UnixNano()), 1)
		if gateOf(s.mr(name)).State != "" {
			return fmt.Errorf("%s was gated", name)
		}
		return nil
	})
}

func (s *fixture) awaitReady(names []string) {
	s.t.Helper()
	for _, name := range names {
		wait.For(s.t, name+" to be ready", 60*time.Second, func(context.Context) error {
			if got := conditionOf(s.mr(name), "Ready"); got != "True" {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
}
