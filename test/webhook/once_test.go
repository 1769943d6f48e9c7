package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

const (
	rounds    = 8
	parallel  = 8
	finishing = 90 * time.Second
)

// TestOnceIsUsedOnce: of eight parallel changes of eight children exactly one
// passes by a wildcard once, whichever of three replicas they meet, and while
// replicas are killed (KR-12-07, KR-05-33).
func TestOnceIsUsedOnce(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "once", options{replicas: 3})
	s := newFixture(t, f, "once")
	var parts []string
	for i := range parallel {
		parts = append(parts, fmt.Sprintf("part-%d", i))
	}
	s.settled(parts...)
	for round := 1; round <= rounds; round++ {
		s.wildcard(100 + round)
		done := make(chan struct{})
		go func() { defer close(done); s.perhapsCrash(round) }()
		passed := together(parallel, func(i int) error {
			return s.insist(func() error { return s.count(s.ctrl, parts[i], round) })
		})
		<-done
		for i, err := range passed.refusals {
			if !refused(err, "Drift") {
				t.Errorf("round %d: request %d: want a refusal Drift, got %v", round, i, err)
			}
		}
		if passed.n != 1 {
			t.Fatalf("round %d: %d of %d changes passed by one once approval:\n%s", round, passed.n, parallel, s.dump())
		}
	}
	f.proxy.spread(t)
	// The replicas that knew the App may have been killed since; those that started afterwards must be called first.
	mustRefuse(t, s.insist(func() error { return s.count(s.ctrl, parts[0], 1+rounds, metav1.DryRunAll) }), "Drift")
	s.finished(rounds)
}

// TestOnceForOneDifference: of eight parallel requests for the same change one
// lands; the approval is gone, and the same change is refused the next time.
func TestOnceForOneDifference(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "race", options{replicas: 3})
	s := newFixture(t, f, "race")
	s.settled("part")
	claims := map[string]bool{} // by which the changes landed
	for round := 1; round <= rounds; round++ {
		id := mustRefuse(t, s.insist(func() error { return s.count(s.ctrl, "part", round) }), "Drift")
		s.annotate(map[string]any{v1alpha1.AnnotationKeyApprovePrefix + id: "once"})
		before := s.generation("part")
		done := make(chan struct{})
		go func() { defer close(done); s.perhapsCrash(round) }()
		together(parallel, func(int) error { return s.insist(func() error { return s.count(s.ctrl, "part", round) }) })
		<-done
		if after := s.generation("part"); after != before+1 {
			t.Fatalf("round %d: the part moved from generation %d to %d, want one change", round, before, after)
		}
		if claim := s.claimed("part"); claim == "" || claims[claim] {
			t.Fatalf("round %d: the change landed by claim %q, want one of its own beside %v", round, claim, claims)
		} else {
			claims[claim] = true
		}
		require.NoError(t, s.insist(func() error { return s.count(s.hans, "part", -round) }))
		mustRefuse(t, s.insist(func() error { return s.count(s.ctrl, "part", round) }), "Drift")
	}
	f.proxy.spread(t)
	s.usedUp() // the number of records varies: that of a Drift which was resolved before it occurred again is removed
}

// TestNamelessCreatesAreNewUses: eight parallel CREATEs with generateName are
// eight uses, of which a wildcard once lets one pass.
func TestNamelessCreatesAreNewUses(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "wildcard", options{replicas: 3})
	s := newFixture(t, f, "wildcard")
	s.settled("part")
	for round := 1; round <= rounds; round++ {
		s.wildcard(100 + round)
		passed := together(parallel, func(int) error {
			o := s.owned(object(f.name, "Part", s.ns, "", map[string]any{"count": int64(round)}))
			o.SetGenerateName("new-")
			_, err := s.of(s.ctrl).Create(t.Context(), o, metav1.CreateOptions{})
			return err
		})
		if passed.n != 1 {
			t.Fatalf("round %d: %d of %d creations passed by one once approval: %v", round, passed.n, parallel, passed.refusals)
		}
	}
	f.proxy.spread(t)
}

// wildcard once approval, a new one for each number.
func (s *fixture) wildcard(n int) {
	s.t.Helper()
	s.annotate(map[string]any{v1alpha1.AnnotationKeyApprovals: fmt.Sprintf(`[{"apiVersion":"*","kind":"*","name":"*","mode":"once","generation":%d}]`, n)})
}

func (s *fixture) generation(part string) int64 {
	s.t.Helper()
	o, err := s.of(s.hans).Get(s.t.Context(), part, metav1.GetOptions{})
	require.NoError(s.t, err)
	return o.GetGeneration()
}

// claimed is the claim by which the last change of a part landed; "" for none.
func (s *fixture) claimed(part string) string {
	s.t.Helper()
	o, err := s.of(s.hans).Get(s.t.Context(), part, metav1.GetOptions{})
	require.NoError(s.t, err)
	hop, err := hopOf(o)
	require.NoError(s.t, err)
	if hop.Approval == nil {
		return ""
	}
	return hop.Approval.Claim
}

// perhapsCrash kills a replica at some moment of every other round and starts it
// again.
func (s *fixture) perhapsCrash(round int) {
	if round%2 != 0 {
		return
	}
	i := rand.IntN(len(s.replicas))
	wait.Pause(s.t, time.Duration(rand.IntN(40))*time.Millisecond) // a replica is killed at a random time
	s.crash(i)
	if err := s.replicas[i].Restart(); err != nil {
		s.t.Error(err)
	}
}

// insist repeats a request as a controller does, until it is stored or refused;
// the error of a replica that was killed is neither.
func (s *fixture) insist(f func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-tick.C {
		err := f()
		lost := kerrors.IsInternalError(err) || kerrors.IsTimeout(err) || kerrors.IsConflict(err) || err != nil &&
			strings.Contains(err.Error(), "failed calling webhook")
		if !lost || time.Now().After(end) {
			return err
		}
	}
}

// finished: n approvals were used, and none is left on the App.
func (s *fixture) finished(n int) {
	s.t.Helper()
	if used := s.usedUp(); used != n {
		s.t.Errorf("%d claims are used, want %d: %s", used, n, s.get().GetAnnotations()[v1alpha1.AnnotationKeyClaims])
	}
}

// usedUp waits until no approval is left on the App and no claim is pending, and returns
// how many are used.
func (s *fixture) usedUp() int {
	s.t.Helper()
	wait.For(s.t, "the approvals to be used up", finishing, func(context.Context) error {
		a := s.get().GetAnnotations()
		for k := range a {
			if k == v1alpha1.AnnotationKeyApprovals || v1alpha1.IsApprove(k) {
				return fmt.Errorf("%s is still there: %s; claims %s", k, a[k], a[v1alpha1.AnnotationKeyClaims])
			}
		}
		if pending := s.claims(v1alpha1.ClaimPending); pending != 0 {
			return fmt.Errorf("%d claims are pending: %s", pending, a[v1alpha1.AnnotationKeyClaims])
		}
		return nil
	})
	return s.claims(v1alpha1.ClaimUsed)
}

type outcome struct {
	n        int
	refusals []error
}

// together runs n calls at once and counts those that passed.
func together(n int, f func(i int) error) outcome {
	var wg sync.WaitGroup
	var passed atomic.Int64
	var mu sync.Mutex
	out := outcome{}
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := f(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				out.refusals = append(out.refusals, err)
				return
			}
			passed.Add(1)
		})
	}
	close(start)
	wg.Wait()
	out.n = int(passed.Load())
	return out
}

// dump the App's and the Parts' annotations, for the message of a failure.
func (s *fixture) dump() string {
	out := fmt.Sprintf("App: %v\n", s.get().GetAnnotations())
	list, err := s.of(s.hans).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	for _, o := range list.Items {
		out += fmt.Sprintf("%s generation %d: %v\n", o.GetName(), o.GetGeneration(), o.GetAnnotations())
	}
	return out
}
