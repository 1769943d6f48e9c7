package rollout

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
	"github.com/kausality-io/function-kausality/internal/records"
)

const (
	// pollEvery is how often Rollouts are checked that have something to do.
	pollEvery = time.Second
	// retryAfter is when a Rollout is tried again that failed.
	retryAfter = 5 * time.Second
	// reconcileTimeout bounds one look at a Rollout.
	reconcileTimeout = 30 * time.Second
)

// Controller of the Rollouts. Fill the exported fields, call Setup before the cluster starts; it runs on the leader.
type Controller struct {
	Cluster *cluster.Cluster
	// Client reads and writes past the cache.
	Client client.Client
	// Drifts from the cache.
	Drifts client.Reader
	// Policies in force; nil before they are read, and where they cannot be.
	Policies func() *allowance.Set
	// Namespace of the RolloutBatches of ClusterRollouts.
	Namespace string
	Events    events.EventRecorder
	Log       logr.Logger
	// Records of phases, waves and votes; nil where none are kept.
	Records *records.Recorder

	changed chan struct{}
	// known Rollouts, by UID. Only the goroutine of Start uses it.
	known map[types.UID]*run
}

// run is what is known of a Rollout between two looks.
type run struct {
	// began is when this process read it first.
	began time.Time
	// seen is the version of the last look, due when to look again; zero for when it changes.
	seen string
	due  time.Time
	// batches of the plan with this id, "" before they are read, as of this generation of the Rollout.
	plan       string
	generation int64
	// replaced: the plan took the place of another one, and the batches of that one are not deleted yet.
	replaced bool
	batches  []*v1alpha1.RolloutBatch
	// stored are the states of the batches that are written.
	stored map[types.UID][]v1alpha1.RolloutObjectStatus
	// lacking is the last answer to what the votes lack.
	lacking answer
	phase   v1alpha1.RolloutPhase
}

// kinds of Rollouts.
var watchedKinds = []schema.GroupVersionKind{
	v1alpha1.GroupVersion.WithKind(v1alpha1.KindRollout), v1alpha1.GroupVersion.WithKind(v1alpha1.KindClusterRollout),
}

// Setup registers the event handlers. Call it before the cluster starts.
func (c *Controller) Setup() {
	c.changed, c.known = make(chan struct{}, 1), map[types.UID]*run{}
	c.Cluster.Kinds.OnChange(func(i kinds.Info) {
		for _, gvk := range watchedKinds {
			if i.GVK == gvk {
				if err := c.Cluster.States.Watch(gvk); err != nil {
					c.Log.Error(err, "cannot watch a kind", "kind", gvk.Kind)
				}
			}
		}
	})
	c.Cluster.States.OnChange(func(_, now *states.Object) {
		if one := now; one != nil && one.Group == v1alpha1.Group {
			c.wake()
		}
	})
}

func (c *Controller) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// NeedLeaderElection is true: one replica lets changes pass.
func (*Controller) NeedLeaderElection() bool { return true }

// Start looks at the Rollouts until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	if !c.Cluster.States.Synced(ctx) {
		return nil
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.changed:
		}
		c.round(ctx)
	}
}

// round over all Rollouts that changed or are due.
func (c *Controller) round(ctx context.Context) {
	exist, again := map[types.UID]bool{}, false
	for _, gvk := range watchedKinds {
		for _, o := range c.Cluster.States.List(gvk) {
			uid := o.State.UID
			exist[uid] = true
			r := c.known[uid]
			if r == nil {
				r = &run{began: clock.Now()}
				c.known[uid] = r
			}
			if now := clock.Now(); r.seen == o.ResourceVersion && (r.due.IsZero() || now.Before(r.due)) {
				continue
			}
			version := o.ResourceVersion
			wait, err := c.look(ctx, o.State.Ref, r)
			r.seen, r.due = version, time.Time{}
			switch {
			case ctx.Err() != nil:
				return
			case kerrors.IsConflict(err):
				wait = pollEvery
			case err != nil:
				c.Log.Error(err, "cannot carry out a rollout", "kind", gvk.Kind, "namespace", o.Namespace, "name", o.Name)
				wait, r.plan = retryAfter, ""
			}
			if wait > 0 {
				r.due = clock.Now().Add(wait)
				again = again || wait < pollEvery
			}
		}
	}
	maps.DeleteFunc(c.known, func(uid types.UID, _ *run) bool { return !exist[uid] })
	c.count()
	if again {
		c.wake()
	}
}

// look at one Rollout. A panic is its error.
func (c *Controller) look(ctx context.Context, ref parent.Ref, r *run) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	o, err := c.read(ctx, ref)
	if err != nil || o == nil {
		return 0, err
	}
	before := o.status.DeepCopy()
	again, err = c.carryOut(ctx, o, r)
	r.phase = o.status.Phase
	if err != nil {
		return 0, err
	}
	if equality.Semantic.DeepEqual(before, o.status) {
		return again, nil
	}
	if err := c.Client.Status().Update(ctx, o.Object, client.FieldOwner(v1alpha1.ManagerWebhook)); err != nil {
		return again, client.IgnoreNotFound(err)
	}
	c.announce(o, before)
	if c.Records.Enabled() {
		c.Records.Add(records.OfRollout(ref, o.GetGeneration(), o.spec, before, o.status, clock.Now()))
	}
	return again, nil
}

// object is a Rollout or ClusterRollout.
type object struct {
	client.Object
	kind   string
	spec   *v1alpha1.RolloutSpec
	status *v1alpha1.RolloutStatus
}

// sealed returns the Rollout for the seals of its claims.
func (o *object) sealed() approval.Sealed {
	kind := schema.GroupKind{Group: v1alpha1.Group, Kind: o.kind}
	return approval.Sealed{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
}

// read a Rollout past the cache; nil where it is gone, or is being deleted.
func (c *Controller) read(ctx context.Context, ref parent.Ref) (*object, error) {
	o := &object{kind: ref.Kind}
	if ref.Kind == v1alpha1.KindClusterRollout {
		r := &v1alpha1.ClusterRollout{}
		o.Object, o.spec, o.status = r, &r.Spec, &r.Status
	} else {
		r := &v1alpha1.Rollout{}
		o.Object, o.spec, o.status = r, &r.Spec, &r.Status
	}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, o.Object)
	if kerrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // See above.
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read it: %w", err)
	}
	if o.GetDeletionTimestamp() != nil || ref.UID != "" && o.GetUID() != ref.UID {
		return nil, nil //nolint:nilnil // See above.
	}
	return o, nil
}
