package gate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/policystore"
	"github.com/kausality-io/function-kausality/internal/records"
)

const (
	// workers reconcile gates concurrently.
	workers = 4
	// installsPerSecond bounds how fast unmasked MRs are masked (KR-08-18).
	installsPerSecond = 10
)

// Controller of the gates. Fill the exported fields, call Setup before the cluster
// starts, then Start on the leader.
type Controller struct {
	Cluster     *cluster.Cluster
	Drifts      client.Client
	Reporter    *drift.Reporter
	Events      events.EventRecorder
	DefaultMode v1alpha1.Mode
	// CreationGrace as in gating.Managed.
	CreationGrace time.Duration
	// Deadline after which an unconfirmed opening is closed, where no policy has
	// one.
	Deadline time.Duration
	// CloseTo are the verbs that a closed gate leaves to the provider; nil for
	// Observe alone.
	CloseTo []v1alpha1.Verb
	// CarryPendingDrift and Provenance as in admission.Options.
	CarryPendingDrift bool
	Provenance        []v1alpha1.Provenance
	// Ignore has the external differences that do not count; nil for none.
	Ignore external.Rules
	// Rules has the ApprovalRules; nil for none.
	Rules *policystore.Store
	// Shard of the gated objects that this process reconciles.
	Shard Shard
	// UserID of this process, for claims.
	UserID string
	Log    logr.Logger
	// Records of transitions; nil where none are kept.
	Records *records.Recorder

	// gates reconciles what gateQueue gets: managed resources, objects of external
	// systems, and their parents. installs are the order in which it masks.
	gates     controller.TypedController[parent.Ref]
	gateQueue *queue
	installs  *turns
	// wakeups reconciles what wakeQueue gets: composites whose children were
	// refused, and policies that changed. wakeRate limits how fast it wakes.
	wakeups   controller.TypedController[parent.Ref]
	wakeQueue *queue
	wakeRate  *rate.Limiter

	// leading is true while the controllers run.
	leading atomic.Bool
	relaxed relaxations
	thaws   thaws
	// ungateable kinds of external systems drop the field that closes the gate;
	// the keys are schema.GroupVersionKinds.
	ungateable sync.Map
	// remaining differences of external resources, for their events.
	remaining remaining
	// shadows are what is known of managed resources in mode log.
	shadows shadows
	// externalStates of objects of external systems, for metrics.
	externalStates externalStates
}

// Setup registers the event handlers and makes the controllers. Call it before the
// cluster starts.
func (c *Controller) Setup() (err error) {
	c.gateQueue, c.installs = newQueue(), newTurns()
	if c.gates, err = newController("gate", workers, c.gateQueue, c.Log, c.reconcile); err != nil {
		return err
	}
	c.wakeQueue, c.wakeRate = newQueue(), rate.NewLimiter(wakesPerSecond, wakesPerSecond)
	if c.wakeups, err = newController("gate-wakeups", 1, c.wakeQueue, c.Log, c.reconcileWakeup); err != nil {
		return err
	}
	c.Cluster.Kinds.OnChange(c.watchPolicies)
	c.Cluster.States.OnChange(c.changed)
	c.Cluster.Policies.OnChange(c.policiesChanged)
	c.Cluster.Scope.OnRemoval(func() { removed(c) })
	if c.Rules != nil {
		c.Rules.OnChange(c.rulesChanged)
	}
	c.watchSystems()
	return c.Cluster.Namespaces.OnChange(c.namespaceChanged)
}

// Start the controllers; it returns when the context ended and they did.
func (c *Controller) Start(ctx context.Context) error {
	if !c.Cluster.States.Synced(ctx) || !c.rulesSynced(ctx) {
		return nil
	}
	c.leading.Store(true)
	defer c.leading.Store(false)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	failed := make([]error, 2)
	for i, ctl := range []controller.TypedController[parent.Ref]{c.gates, c.wakeups} {
		wg.Go(func() {
			if failed[i] = ctl.Start(ctx); failed[i] != nil {
				cancel()
			}
		})
	}
	wg.Go(func() { c.installs.run(ctx, rate.NewLimiter(installsPerSecond, installsPerSecond), c.gateQueue.add) })
	if c.gateQueue.awaitStart(ctx) && c.wakeQueue.awaitStart(ctx) {
		c.resume(ctx)
	}
	wg.Wait()
	return errors.Join(failed...)
}

// rulesSynced waits until the ApprovalRules are known: without them one approval would open a gate that needs two. It is false where
// the context ends before.
func (c *Controller) rulesSynced(ctx context.Context) bool {
	err := wait.PollUntilContextCancel(ctx, rulesPoll, true, func(context.Context) (bool, error) { return c.Rules == nil || c.Rules.HasSynced(), nil })
	return err == nil
}

// rulesPoll is how often it is looked whether the ApprovalRules are known.
const rulesPoll = 50 * time.Millisecond

// resume what the last leader did: every object may have changed since.
func (c *Controller) resume(ctx context.Context) {
	for _, i := range c.Cluster.Kinds.All() {
		cluster.Each("gate", c.Cluster.States.List(i.GVK), func(o *cluster.Object) { c.changed(nil, o) })
	}
	c.noteFreezes()
	c.noteWindows()
	if err := c.wakeRefused(ctx, ""); err != nil {
		c.Log.Error(err, "cannot wake what was refused")
	}
}

// removed is called when Kausality is about to be removed: nothing is refused any more.
func removed(c *Controller) {
	c.recheckAll()
	if err := c.wakeRefused(context.Background(), ""); err != nil { // from a cache: it does not block
		c.Log.Error(err, "cannot wake what was refused")
	}
}

// NeedLeaderElection is true: one replica of a shard moves the gates.
func (c *Controller) NeedLeaderElection() bool { return true }

// managed reports whether an object has managementPolicies, which the gate masks.
func (c *Controller) managed(ref parent.Ref) bool {
	return c.Cluster.Kinds.Kind(ref.GroupVersionKind).ManagementPolicies
}

// isUngateable reports whether the objects of a kind cannot be gated.
func (c *Controller) isUngateable(gvk schema.GroupVersionKind) bool {
	_, is := c.ungateable.Load(gvk)
	return is
}
