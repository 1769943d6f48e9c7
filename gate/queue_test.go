package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/await"
)

// calls counts the reconciles of each object by name.
type calls struct {
	mu     sync.Mutex
	byName map[string]int
	// noted is raised with each.
	noted await.Signal
}

func (c *calls) note(ref parent.Ref) {
	defer c.noted.Raise()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[ref.Name]++
}

func (c *calls) await(t *testing.T, name string, n int) {
	t.Helper()
	c.noted.Until(t, fmt.Sprintf("%s to be reconciled %d times", name, n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.byName[name] >= n
	})
}

// started is a controller of f, which ends with the test.
func started(t *testing.T, f reconcile.TypedFunc[parent.Ref]) *queue {
	t.Helper()
	q := newQueue()
	ctl, err := newQueued("test", 1, q, logr.Discard(), f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- ctl.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if !q.awaitStart(ctx) {
		t.Fatal("the controller did not start")
	}
	return q
}

// TestPoison: an object whose reconcile panics is retried, and all others are
// reconciled, although they share its worker (KR-13-02).
func TestPoison(t *testing.T) {
	seen := &calls{byName: map[string]int{}}
	q := started(t, func(_ context.Context, ref parent.Ref) (reconcile.Result, error) {
		seen.note(ref)
		if ref.Name == "poison" {
			panic("poison")
		}
		return reconcile.Result{}, nil
	})
	for _, name := range []string{"poison", "one", "two"} {
		q.add(parent.Ref{Name: name})
	}
	seen.await(t, "one", 1)
	seen.await(t, "two", 1)
	seen.await(t, "poison", 2)
	q.add(parent.Ref{Name: "one"})
	seen.await(t, "one", 2)
}

// TestRequeue: a deadline brings an object back, and the UID of a reference does not
// make it another object.
func TestRequeue(t *testing.T) {
	seen := &calls{byName: map[string]int{}}
	q := started(t, func(_ context.Context, ref parent.Ref) (reconcile.Result, error) {
		seen.note(ref)
		if ref.UID != "" {
			t.Errorf("reconciled with UID %s", ref.UID)
		}
		return reconcile.Result{RequeueAfter: 5 * time.Millisecond}, nil
	})
	q.add(parent.Ref{Name: "one", UID: "uid"})
	seen.await(t, "one", 3)
}

// TestQueueBeforeStart: what is added before the controller starts is dropped, and
// does not block.
func TestQueueBeforeStart(t *testing.T) {
	q := newQueue()
	q.add(parent.Ref{Name: "early"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if q.awaitStart(ctx) {
		t.Error("nothing started")
	}
}

func TestResult(t *testing.T) {
	conflict := kerrors.NewConflict(schema.GroupResource{Resource: "databases"}, "one", errors.New("it changed"))
	ended, end := context.WithCancel(t.Context())
	end()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	cases := map[string]struct {
		reason string
		ctx    context.Context //nolint:containedctx // A case is about a context that has ended.
		again  time.Duration
		err    error
		want   reconcile.Result
		fails  bool
	}{
		"Done":     {reason: "nothing is left to do", ctx: t.Context()},
		"Deadline": {reason: "the gate is closed at its deadline", ctx: t.Context(), again: time.Hour, want: reconcile.Result{RequeueAfter: time.Hour}},
		"Conflict": {reason: "retried with backoff, and no error in the log", ctx: t.Context(), err: conflict, want: reconcile.Result{Requeue: true}},
		"Error":    {reason: "retried with backoff, and logged", ctx: t.Context(), err: errors.New("EOF"), fails: true},
		"Timeout":  {reason: "an object that takes too long is logged", ctx: late, err: context.DeadlineExceeded, fails: true},
		"Ended":    {reason: "the process ends: no error", ctx: ended, err: context.Canceled},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := result(tc.ctx, tc.again, tc.err)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%s: got %+v, error %v", tc.reason, got, err)
			}
		})
	}
}
