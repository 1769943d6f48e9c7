package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

const (
	// workers reconcile gates concurrently.
	workers = 4
	// installsPerSecond bounds how fast unmasked MRs are masked (KR-08-18).
	installsPerSecond = 10
	// rulesPoll is how often it is looked whether the ApprovalRules are known.
	rulesPoll = 50 * time.Millisecond
)

// Controller runs the three reconcilers: of managed resources and of objects of external systems, which share a queue, and the waker
// of composites. See listen for what makes them reconcile.
type Controller struct {
	*core
	managed managed
	foreign foreign
	waker   *waker

	// gates reconciles what the queue of the scope gets, wakeups what that of the waker gets.
	gates, wakeups controller.TypedController[parent.Ref]
}

// newController returns the Controller of what a core decides. Call Start on the leader, once the cluster has started.
func newController(c *core) (*Controller, error) {
	ctl := &Controller{core: c, managed: managed{core: c}, foreign: foreign{core: c, ungateable: &sync.Map{}}, waker: newWaker(c)}
	var err error
	if ctl.gates, err = newQueued("gate", workers, c.scope.queue, c.log, ctl.reconcile); err != nil {
		return nil, err
	}
	if ctl.wakeups, err = newQueued("gate-wakeups", 1, ctl.waker.queue, c.log, ctl.waker.reconcile); err != nil {
		return nil, err
	}
	return ctl, nil
}

// Start the controllers; it returns when the context ended and they did.
func (c *Controller) Start(ctx context.Context) error {
	if !c.cluster.States.Synced(ctx) || !c.rulesSynced(ctx) {
		return nil
	}
	c.scope.leading.Store(true)
	defer c.scope.leading.Store(false)
	all, ctx := errgroup.WithContext(ctx)
	for _, ctl := range []controller.TypedController[parent.Ref]{c.gates, c.wakeups} {
		all.Go(func() error { return ctl.Start(ctx) })
	}
	all.Go(func() error {
		c.installs.run(ctx, rate.NewLimiter(installsPerSecond, installsPerSecond), c.scope.queue.add)
		return nil
	})
	if c.scope.queue.awaitStart(ctx) && c.waker.queue.awaitStart(ctx) {
		c.resume(ctx)
	}
	return all.Wait()
}

// rulesSynced waits until the ApprovalRules are known: without them one approval would open a gate that needs two. It is false where
// the context ends before.
func (c *Controller) rulesSynced(ctx context.Context) bool {
	err := wait.PollUntilContextCancel(ctx, rulesPoll, true, func(context.Context) (bool, error) { return c.rules == nil || c.rules.HasSynced(), nil })
	return err == nil
}

// resume what the last leader did: every object may have changed since.
func (c *Controller) resume(ctx context.Context) {
	for _, i := range c.cluster.Kinds.All() {
		informer.Each("gate", c.cluster.States.List(i.GVK), func(o *states.Object) { c.changed(nil, o) })
	}
	c.waker.noteFreezes()
	c.waker.noteWindows()
	if err := c.waker.wakeRefused(ctx, ""); err != nil {
		c.log.Error(err, "cannot wake what was refused")
	}
}

// NeedLeaderElection is true: one replica of a shard moves the gates.
func (c *Controller) NeedLeaderElection() bool { return true }

// reconcile a gated object, or one that holds approvals for gated ones.
func (c *Controller) reconcile(ctx context.Context, ref parent.Ref) (reconcile.Result, error) {
	ctx, span := telemetry.Span(ctx, "gate")
	again, err := c.reconcileOne(ctx, ref)
	telemetry.End(span, err, "kind", ref.Kind)
	return result(ctx, again, err)
}

// reconcileOne object. again is when to reconcile it without a change, as for a deadline; 0 for never.
func (c *Controller) reconcileOne(ctx context.Context, ref parent.Ref) (again time.Duration, err error) {
	o := c.cluster.States.Cached(ref)
	if o == nil { // if it is created again, its watch brings it back
		c.reporter.externalStates.forget(withoutUID(ref))
		c.installs.drop(ref)
		return 0, nil
	}
	if s := systems.For(ref.GroupVersionKind); s != nil {
		return c.foreign.reconcile(ctx, o, s)
	}
	if !c.scope.managed(ref) {
		return 0, c.managed.reconcileHolder(ctx, o)
	}
	return c.managed.reconcile(ctx, o)
}

// result for the controller. A conflict is retried with backoff like an error, and
// is not logged as one: the object changed since it was read.
func result(ctx context.Context, again time.Duration, err error) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: again}, nil
	case errors.Is(ctx.Err(), context.Canceled): // the next leader reconciles everything
		return reconcile.Result{}, nil
	case kerrors.IsConflict(err):
		return reconcile.Result{Requeue: true}, nil //nolint:staticcheck // RequeueAfter has no backoff.
	}
	return reconcile.Result{}, fmt.Errorf("cannot reconcile gate: %w", err)
}
