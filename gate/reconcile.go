package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

// reconcile one object for the controller.
func (c *Controller) reconcile(ctx context.Context, ref parent.Ref) (reconcile.Result, error) {
	ctx, span := telemetry.Span(ctx, "gate")
	again, err := c.Reconcile(ctx, ref)
	telemetry.End(span, err, "kind", ref.Kind)
	return result(ctx, again, err)
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

// Reconcile one gated object, or one that holds approvals for gated ones. again is
// when to reconcile it without a change, as for a deadline; 0 for never.
func (c *Controller) Reconcile(ctx context.Context, ref parent.Ref) (again time.Duration, err error) {
	o := c.Cluster.States.Cached(ref)
	if o == nil {
		c.externalStates.forget(ref)
		c.installs.drop(ref)
		return 0, nil
	}
	if s := systems.For(ref.GroupVersionKind); s != nil {
		return c.reconcileForeign(ctx, o, s)
	}
	if !c.managed(ref) {
		return 0, c.reconcileHolder(ctx, o)
	}
	g, err := c.gating(ctx, o)
	if err != nil {
		return 0, err
	}
	d, err := c.decide(ctx, o, &g, gating.Managed.Decide)
	if err != nil || c.awaitsTurn(o, d) {
		return d.Again, err
	}
	if err := c.act(ctx, o, g, d); err != nil {
		return 0, err
	}
	recorded, err := c.report(ctx, o, g, d)
	if err != nil {
		return 0, err
	}
	return untilRecorded(recorded, c.reportRemaining(ctx, o, g, d)), c.repeat(ctx, o)
}

// gating is the core's input for an object, with holders from the cache.
func (c *Controller) gating(ctx context.Context, o *cluster.Object) (gating.Managed, error) {
	mode, err := c.Cluster.Mode(o.State, c.DefaultMode)
	if err != nil {
		return gating.Managed{}, err
	}
	g := gating.Of(o.State, c.Cluster.Kinds.Kind(o.GroupVersionKind), o.External, c.Cluster.Settings(o.State.Ref, o.State.Labels),
		gating.Defaults{Deadline: c.Deadline, CloseTo: c.CloseTo, Ignore: c.Ignore})
	g.Mode, g.CarryPendingDrift, g.User, g.Now, g.CreationGrace = mode, c.CarryPendingDrift, c.UserID, clock.Now(), c.CreationGrace
	if c.Rules != nil {
		g.Policies = c.Rules.Policies()
	}
	g.Holders, err = c.Cluster.Holders(ctx, o, false)
	return g, err
}

// decide about a gate, after the claims of its last opening are finished. Where
// the cache does not suffice, it decides again on holders that are read live
// (KR-05-20), and before it opens one: a freeze may be newer than the watch of a
// holder (KR-13-24), or that of policies (KR-13-74). g is what f decided about in the end.
func (c *Controller) decide(ctx context.Context, o *cluster.Object, g *gating.Managed, f func(gating.Managed) gating.Decision) (gating.Decision, error) {
	if err := c.finish(ctx, o, g.Holders); err != nil {
		return gating.Decision{}, err
	}
	d := f(*g)
	if !d.Live && d.Action != gating.ActionOpen {
		return d, nil
	}
	var err error
	if g.Holders, err = c.Cluster.Holders(ctx, o, true); err != nil {
		return d, err
	}
	g.Live = true
	if err := c.finish(ctx, o, g.Holders); err != nil {
		return d, err
	}
	if d = f(*g); d.Action != gating.ActionOpen {
		return d, nil
	}
	if err := c.refresh(ctx, g); err != nil {
		return d, err
	}
	if d = f(*g); d.Action == gating.ActionNone && (d.Again == 0 || d.Again > cluster.FreshFor) {
		d.Again = cluster.FreshFor // what was read may be older than what the watch has
	}
	return d, nil
}

// refresh the policies by which a gate is decided about: those that are stored, in place of those of the watch. An ApprovalRule that the watch
// shows stays: it may be later than what was read, and an opening names whose votes counted (KR-14-63).
func (c *Controller) refresh(ctx context.Context, g *gating.Managed) error {
	if err := cluster.CoverLive(ctx, c.Cluster, g.Holders); err != nil || c.Rules == nil {
		return err
	}
	stored, err := c.Rules.Live(ctx)
	if err == nil {
		g.Policies = stored.WithRulesOf(g.Policies)
	}
	return err
}

// awaitsTurn reports whether a decision masks an object whose turn it is not. It is
// reconciled again when it is.
func (c *Controller) awaitsTurn(o *cluster.Object, d gating.Decision) bool {
	if d.Action == gating.ActionInstall {
		return !c.installs.take(o.State.Ref, o.State.Parent)
	}
	c.installs.drop(o.State.Ref)
	return false
}

// prepare the write of a decision: claim what it uses up (KR-05-33).
func (c *Controller) prepare(ctx context.Context, d gating.Decision) error {
	if d.Claim == nil {
		return nil
	}
	if err := c.Cluster.States.TakeClaims(ctx, d.Claim.Holder, v1alpha1.ManagerGate, d.Claim.Stored, d.Claim.HasStored, d.Claim.Value); err != nil {
		return fmt.Errorf("cannot claim the approval on %s: %w", identity.Describe(d.Claim.Holder), err)
	}
	return nil
}

// act on a decision about an MR, in one write (KR-08-23).
func (c *Controller) act(ctx context.Context, o *cluster.Object, g gating.Managed, d gating.Decision) error {
	if d.Action == gating.ActionNone {
		return nil
	}
	if err := c.prepare(ctx, d); err != nil {
		return err
	}
	p := patch(o, d)
	if err := c.carry(ctx, o, g, d, &p); err != nil {
		return err
	}
	if err := c.Cluster.States.Apply(ctx, o.State.Ref, p); err != nil {
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	c.announce(o, g, d)
	return nil
}
