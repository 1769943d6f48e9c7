package gate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
	"github.com/kausality-io/function-kausality/gate/systems"
	"github.com/kausality-io/function-kausality/telemetry"
)

const (
	workers          = 4
	reconcileTimeout = 15 * time.Second
	// installsPerSecond is how fast unmasked MRs are taken in.
	installsPerSecond = 10
)

// Controller of the gates. Fill the exported fields, then Run.
type Controller struct {
	Cluster     *cluster.Cluster
	Drifts      client.Client
	Reporter    *drift.Reporter
	Events      events.EventRecorder
	DefaultMode v1alpha1.Mode
	Deadline    time.Duration
	CloseTo     []v1alpha1.Verb
	// CarryPendingDrift as in admission.Options.
	CarryPendingDrift bool
	// Ignore says which external differences do not count; nil for none.
	Ignore external.Rules
	// Shard of the gated objects that this process has.
	Shard Shard
	// UserHash of this process, for claims.
	UserHash string
	Log      logr.Logger

	queue   workqueue.TypedRateLimitingInterface[parent.Ref]
	install *rate.Limiter

	// wakes are composites to wake, and policies that changed.
	wakes    workqueue.TypedRateLimitingInterface[parent.Ref]
	wakeRate *rate.Limiter
	// changedAt is when something last changed in a Namespace ("" for
	// everywhere) that may let through what was refused; only what is recent.
	changedMu sync.Mutex
	changedAt map[string]time.Time
	leading   atomic.Bool
	// unfit kinds of external systems drop the field by which they are closed.
	unfit sync.Map
	// sights of objects of external systems, for metrics.
	sights sights
}

// Watch what the gates depend on. Call it before the cluster starts.
func (c *Controller) Watch() error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[parent.Ref](50*time.Millisecond, 30*time.Second)
	c.queue, c.install = workqueue.NewTypedRateLimitingQueue(limiter), rate.NewLimiter(installsPerSecond, installsPerSecond)
	limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[parent.Ref](50*time.Millisecond, 30*time.Second)
	c.wakes, c.wakeRate = workqueue.NewTypedRateLimitingQueue(limiter), rate.NewLimiter(wakesPerSecond, wakesPerSecond)
	c.Cluster.Kinds.OnChange(c.watchPolicies)
	c.Cluster.States.OnChange(c.changed)
	c.Cluster.Policies.OnChange(c.Recheck)
	c.Cluster.Scope.OnRemoval(c.Recheck)
	c.watchSystems()
	return c.Cluster.Namespaces.OnChange(c.namespaceChanged)
}

func (c *Controller) managed(ref parent.Ref) bool {
	return c.Cluster.Kinds.Kind(ref.GroupVersionKind).ManagementPolicies
}

// changed objects: an MR is looked at itself; an XR or Claim may have brought
// approvals for the MRs below it, or have claims to finish.
func (c *Controller) changed(old, new *cluster.Object) {
	one := new
	if one == nil {
		one = old
	}
	switch {
	case one.Group == v1alpha1.Group:
		c.policyChanged(old, new)
		return
	case c.managed(one.State.Ref):
		c.orphaned(old, new)
		c.admitted(old, new)
	}
	switch {
	case new == nil && c.managed(old.State.Ref):
		if old.Parent.Name != "" {
			c.enqueue(old.Parent)
		}
	case new == nil:
		c.sights.forget(old.State.Ref)
	case c.managed(new.State.Ref), systems.For(new.GroupVersionKind) != nil:
		c.enqueue(new.State.Ref)
	case old == nil || !sameDecisions(old, new) || len(old.Children) != len(new.Children):
		c.enqueue(new.State.Ref)
		if old != nil && len(new.Children) == 0 && decides(old) && !decides(new) { // the last word was taken back
			c.again(func(mr *cluster.Object) bool { return mr.Parent.UID == new.State.UID })
		}
	}
}

func withoutUID(ref parent.Ref) parent.Ref { ref.UID = ""; return ref }

// sameDecisions reports whether people's annotations and the claims are as they
// were.
func sameDecisions(a, b *cluster.Object) bool {
	count := 0
	for k, v := range a.Annotations {
		if v1alpha1.IsUser(k) || k == v1alpha1.AnnotationKeyClaims {
			if w, ok := b.Annotations[k]; !ok || w != v {
				return false
			}
			count++
		}
	}
	for k := range b.Annotations {
		if v1alpha1.IsUser(k) || k == v1alpha1.AnnotationKeyClaims {
			count--
		}
	}
	return count == 0
}

// namespaceChanged its mode or labels, or is being deleted: its MRs may have to
// be masked or restored, what was refused in it is let through, or its deletion
// repeated.
func (c *Controller) namespaceChanged(name string) {
	c.again(func(o *cluster.Object) bool { return o.State.Namespace == name })
	if err := c.WakeRefused(context.Background(), name); err != nil { // from a cache: it does not block
		c.Log.Error(err, "cannot wake what was refused", "namespace", name)
	}
}

// Recheck all MRs, because rules changed that are about all of them. It does not
// block.
func (c *Controller) Recheck() { c.again(func(*cluster.Object) bool { return true }) }

// again looks at those MRs whose circumstances changed.
func (c *Controller) again(concerned func(*cluster.Object) bool) {
	for _, i := range c.Cluster.Kinds.All() {
		if !i.Kind.ManagementPolicies && systems.For(i.GVK) == nil {
			continue
		}
		for _, o := range c.Cluster.States.List(i.GVK) {
			if concerned(o) {
				c.enqueue(o.State.Ref)
			}
		}
	}
}

// watchDrifts looks at an MR again when a Drift about it appears: it may have
// been resolved before it was recorded.
func (c *Controller) watchDrifts(ctx context.Context, mgr manager.Manager) error {
	i, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.Drift{})
	if err != nil {
		return fmt.Errorf("cannot watch drifts: %w", err)
	}
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: c.drifted, UpdateFunc: func(was, o any) {
		c.drifted(o)
		old, _ := was.(*v1alpha1.Drift)
		if d, ok := o.(*v1alpha1.Drift); ok && old != nil && old.Status.Phase != v1alpha1.DriftDetected {
			c.recordedLate(d)
		}
	}})
	return err
}

func (c *Controller) drifted(o any) {
	d, ok := o.(*v1alpha1.Drift)
	if !ok || d.Status.Phase != v1alpha1.DriftDetected || len(IndexChild(d)) == 0 && d.Status.RepeatFor == "" {
		return
	}
	ref := d.Spec.Child
	c.enqueue(parent.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), Namespace: ref.Namespace, Name: ref.Name})
	// An XR's is repeated by way of its MRs, which holder looks at.
}

// Start the workers; it returns when the context ended and they did.
func (c *Controller) Start(ctx context.Context) error {
	if !c.Cluster.States.Synced(ctx) {
		return nil
	}
	c.leading.Store(true)
	defer c.leading.Store(false)
	for _, i := range c.Cluster.Kinds.All() { // what changed before we were elected
		for _, o := range c.Cluster.States.List(i.GVK) {
			c.changed(nil, o)
		}
	}
	done := make(chan struct{})
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for more := true; more; {
				more = c.next(ctx)
			}
		}()
	}
	giveBack := cluster.GiveBack{Cluster: c.Cluster, Idle: func() bool { return c.queue.Len() == 0 }}
	go func() { defer func() { done <- struct{}{} }(); _ = giveBack.Start(ctx) }() // it has no errors
	if err := c.WakeRefused(ctx, ""); err != nil {                                 // what was allowed before we were elected
		c.Log.Error(err, "cannot wake what was refused")
	}
	go func() { defer func() { done <- struct{}{} }(); c.runWakes(ctx) }()
	<-ctx.Done()
	c.queue.ShutDown()
	c.wakes.ShutDown()
	for range workers + 2 { // what wakes composites, and gives memory back
		<-done
	}
	return nil
}

// NeedLeaderElection is true: one replica moves the gates.
func (c *Controller) NeedLeaderElection() bool { return true }

func (c *Controller) next(ctx context.Context) bool {
	ref, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(ref)
	rctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	rctx, span := telemetry.Span(rctx, "gate")
	again, err := c.Reconcile(rctx, ref)
	telemetry.End(span, err, "kind", ref.Kind)
	switch {
	case err != nil && ctx.Err() == nil:
		if !kerrors.IsConflict(err) {
			c.Log.Error(err, "cannot reconcile gate", "object", identity.Describe(ref))
		}
		c.queue.AddRateLimited(ref)
	default:
		c.queue.Forget(ref)
		if again > 0 {
			c.queue.AddAfter(ref, again)
		}
	}
	return true
}

// Reconcile one MR, or one XR or Claim.
func (c *Controller) Reconcile(ctx context.Context, ref parent.Ref) (time.Duration, error) {
	o := c.Cluster.States.Cached(ref)
	if o == nil {
		c.sights.forget(ref)
		return 0, nil
	}
	if s := systems.For(ref.GroupVersionKind); s != nil {
		return c.foreign(ctx, o, s)
	}
	if !c.managed(ref) {
		return 0, c.holder(ctx, o)
	}
	g, err := c.gating(ctx, o)
	if err != nil {
		return 0, err
	}
	d, err := c.decide(ctx, o, &g, gating.Managed.Decide)
	if err != nil {
		return 0, err
	}
	if err := c.act(ctx, o, d); err != nil {
		return 0, err
	}
	if err := c.report(ctx, o, g, d); err != nil {
		return 0, err
	}
	return d.Again, c.repeat(ctx, o)
}

// decide about a gate, once what it was open by is finished where it is closed;
// on holders as they are where what a cache says does not suffice. f decides
// about g, which is left as it was decided about.
func (c *Controller) decide(ctx context.Context, o *cluster.Object, g *gating.Managed, f func(gating.Managed) gating.Decision) (gating.Decision, error) {
	if err := c.finish(ctx, o, g.Holders); err != nil {
		return gating.Decision{}, err
	}
	d := f(*g)
	if !d.Live {
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
	return f(*g), nil
}

func (c *Controller) gating(ctx context.Context, o *cluster.Object) (gating.Managed, error) {
	mode, err := c.Cluster.Mode(o.State, c.DefaultMode)
	if err != nil {
		return gating.Managed{}, err
	}
	g := o.Gating(c.Cluster.Kinds.Kind(o.GroupVersionKind), c.Cluster.Settings(o.State.Ref, o.State.Labels), c.Deadline, c.CloseTo)
	g.Difference = c.Ignore.Filter(o.GroupKind(), g.Difference)
	g.Mode, g.CarryPendingDrift, g.User, g.Now = mode, c.CarryPendingDrift, c.UserHash, time.Now()
	g.Holders, err = c.Cluster.Holders(ctx, o, false)
	return g, err
}

// before the write that a decision asks for: installing masks is slow on purpose,
// and what the write uses up is claimed first.
func (c *Controller) before(ctx context.Context, d gating.Decision) error {
	if d.Action == gating.ActionInstall {
		if err := c.install.Wait(ctx); err != nil {
			return err
		}
	}
	if d.Claim == nil {
		return nil
	}
	if err := c.Cluster.States.TakeClaims(ctx, d.Claim.Holder, v1alpha1.ManagerGate, d.Claim.Stored, d.Claim.HasStored, d.Claim.Value); err != nil {
		return fmt.Errorf("cannot claim the approval on %s: %w", identity.Describe(d.Claim.Holder), err)
	}
	return nil
}

// act on a decision: claim first, then one write to the MR.
func (c *Controller) act(ctx context.Context, o *cluster.Object, d gating.Decision) error {
	if d.Action == gating.ActionNone {
		return nil
	}
	if err := c.before(ctx, d); err != nil {
		return err
	}
	if err := c.Cluster.States.Apply(ctx, o.State.Ref, patch(o, d)); err != nil {
		if kerrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	c.tell(o, d)
	return nil
}
