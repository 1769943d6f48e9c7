package gate

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/policystore"
)

// core decides about gates, for managed resources and objects of external systems alike.
type core struct {
	options Options
	cluster *cluster.Cluster
	// rules has the ApprovalRules; nil for none.
	rules *policystore.Store
	// userID of this process, for claims.
	userID   string
	scope    *scope
	reporter *reporter
	// installs are the order in which objects are masked.
	installs *turns
	log      logr.Logger
}

// gating returns the core's input for an object, with holders from the cache.
func (c *core) gating(ctx context.Context, o *states.Object) (gating.Managed, error) {
	mode, err := c.cluster.Mode(o.State, c.options.DefaultMode)
	if err != nil {
		return gating.Managed{}, err
	}
	g := gating.Of(o.State, c.cluster.Kinds.Kind(o.GroupVersionKind), o.External, c.cluster.Settings(o.State.Ref, o.State.Labels),
		gating.Defaults{Deadline: c.options.Deadline, CloseTo: c.options.CloseTo, Ignore: c.options.Ignore})
	g.Mode, g.CarryPendingDrift, g.User, g.Now, g.CreationGrace = mode, c.options.CarryPendingDrift, c.userID, clock.Now(), c.options.CreationGrace
	if c.rules != nil {
		g.Policies = c.rules.Policies()
	}
	g.Holders, err = c.cluster.Holders(ctx, o, false)
	return g, err
}

// decide about a gate, after the claims of its last opening are finished. Where
// the cache does not suffice, it decides again on holders that are read live
// (KR-05-20), and before it opens one: a freeze may be newer than the watch of a
// holder (KR-13-24), or that of policies (KR-13-74). g is what f decided about in the end.
func (c *core) decide(ctx context.Context, o *states.Object, g *gating.Managed, f func(gating.Managed) gating.Decision) (gating.Decision, error) {
	if err := c.finish(ctx, o, g.Holders); err != nil {
		return gating.Decision{}, err
	}
	d := f(*g)
	if !d.Live && d.Action != gating.ActionOpen {
		return d, nil
	}
	var err error
	if g.Holders, err = c.cluster.Holders(ctx, o, true); err != nil {
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
	if d = f(*g); d.Action == gating.ActionNone && (d.Again == 0 || d.Again > informer.FreshFor) {
		d.Again = informer.FreshFor // what was read may be older than what the watch has
	}
	return d, nil
}

// refresh the policies by which a gate is decided about: those that are stored, in place of those of the watch. An ApprovalRule that the watch
// shows stays: it may be later than what was read, and an opening names whose votes counted (KR-14-63).
func (c *core) refresh(ctx context.Context, g *gating.Managed) error {
	if err := cluster.CoverLive(ctx, c.cluster, g.Holders); err != nil || c.rules == nil {
		return err
	}
	stored, err := c.rules.Live(ctx)
	if err == nil {
		g.Policies = stored.WithRulesOf(g.Policies)
	}
	return err
}

// awaitsTurn reports whether a decision masks an object that does not have its turn yet. The
// object is reconciled again when it has.
func (c *core) awaitsTurn(o *states.Object, d gating.Decision) bool {
	if d.Action == gating.ActionInstall {
		return !c.installs.take(o.State.Ref, o.State.Parent)
	}
	c.installs.drop(o.State.Ref)
	return false
}

// prepare the write of a decision: claim what it uses up (KR-05-33).
func (c *core) prepare(ctx context.Context, d gating.Decision) error {
	if d.Claim == nil {
		return nil
	}
	if err := c.cluster.States.TakeClaims(ctx, d.Claim.Holder, v1alpha1.ManagerGate, d.Claim.Stored, d.Claim.HasStored, d.Claim.Value); err != nil {
		return fmt.Errorf("cannot claim the approval on %s: %w", identity.Describe(d.Claim.Holder), err)
	}
	return nil
}

// finish the claim of a gate that closed: its approval is used (KR-05-33).
func (c *core) finish(ctx context.Context, o *states.Object, holders []identity.Holder) error {
	for _, h := range holders {
		if claim := gating.ClaimToFinish(o.State, h.State); claim != nil {
			edits, err := c.spend(ctx, h.State, *claim)
			if err == nil {
				c.reporter.announceClaims(o, h.State, edits)
			}
			return err
		}
	}
	return nil
}

// spend an approval: its entry is removed, and its record stays (KR-05-35).
func (c *core) spend(ctx context.Context, holder *parent.State, claim v1alpha1.Claim) (edits map[string]*string, err error) {
	edits = gating.Spend(holder.Annotations, claim, clock.Now())
	err = c.cluster.States.Apply(ctx, holder.Ref, states.Patch{Manager: v1alpha1.ManagerGate, ResourceVersion: holder.ResourceVersion, Annotations: edits})
	if kerrors.IsNotFound(err) {
		return nil, nil
	}
	return edits, err
}

// recorded reports whether this gate records a Drift, and sends its reports.
func (c *core) recorded(d *v1alpha1.Drift) bool {
	return drift.OfGate(d) && c.scope.ours(identity.Ref(d.Spec.Child))
}
