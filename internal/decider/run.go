package decider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/decider/builds"
	"github.com/kausality-io/function-kausality/internal/decider/orphans"
	"github.com/kausality-io/function-kausality/internal/decider/permissions"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/internal/drift"
	"github.com/kausality-io/function-kausality/internal/policystore"
	"github.com/kausality-io/function-kausality/internal/records"
	"github.com/kausality-io/function-kausality/internal/rollout"
)

// Options of a Decider, and of what it writes beside requests.
type Options struct {
	cluster.Process
	// ComponentUsers are the user names of our other components.
	ComponentUsers []string
	// Controllers are the users who may be controllers.
	Controllers subject.Eligible
	// SettleGrace during which an XR must stay converged.
	SettleGrace time.Duration
	Admission   admission.Options
	Endpoints   drift.Endpoints
	Reports     drift.ReportOptions
	// Records of what is decided; nil where none are kept.
	Records *records.Recorder
	// Protection is reported with each heartbeat.
	Protection heartbeat.Protection
	// Check of permissions in place of SubjectAccessReviews; nil for these.
	Check permissions.Check
	// Caller returns the program that makes a request, as its User-Agent names it: a claim, for the build of a controller that runs outside of
	// Pods. nil where it is not known.
	Caller func(context.Context) string
}

// Cached returns the objects that the cache of the manager has: the Drifts.
func Cached() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&v1alpha1.Drift{}: {Transform: drift.Trim}}
}

// Manager of the process. Its cache has what Cached returns, and may have more.
func Manager(o Options, cached map[client.Object]cache.ByObject) (manager.Manager, error) {
	return o.Manager(v1alpha1.ManagerWebhook, cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: cached},
		v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme)
}

// Add a Decider to a manager, with all that it runs beside requests, and probes of whether its caches are filled. self is the user name of this
// process.
func Add(mgr manager.Manager, c *cluster.Cluster, self string, o Options) (*Decider, error) {
	beat, err := heartbeat.New(c.Dynamic, o.LeaderNamespace, cluster.WebhookHeartbeat, c.Log)
	if err != nil {
		return nil, err
	}
	beat.Reports = o.Protection
	senders, err := drift.NewSenders(o.Endpoints)
	if err != nil {
		return nil, err
	}
	d, s, err := o.decider(mgr, c, beat, self, senders)
	if err != nil {
		return nil, err
	}
	if err := probes(mgr, d); err != nil {
		return nil, err
	}
	err = cluster.AddAll(mgr, c, beat, d.Orphans, d.Policies, leading(d.Policies.Lead), s, d.Reporter, leading(s.Lead),
		cluster.Everywhere(func(ctx context.Context) error { d.Policies.FinishClaims(ctx, s.Child); return nil }), cluster.Everywhere(c.GiveBack))
	if err != nil {
		return nil, err
	}
	if err := o.addRollouts(mgr, c, d); err != nil {
		return nil, err
	}
	if err := drift.AddResolver(mgr, c, d.Reporter, d.Held, d.Evaluator.World.Author, o.Log); err != nil {
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	if err := drift.AddDeliverer(mgr, d.Reporter, senders, drift.AuthorOf(c, o.Reports), v1alpha1.ManagerWebhook, recorded); err != nil {
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	return d, nil
}

// decider of requests, and the settler that writes what they show.
func (o Options) decider(mgr manager.Manager, c *cluster.Cluster, beat *heartbeat.Heartbeat, self string, senders []*drift.Sender) (
	*Decider, *settler.Settler, error) {
	memory := settler.NewMemory()
	s, err := settler.New(c, memory, o.SettleGrace, o.Log.WithName("settler"))
	if err != nil {
		return nil, nil, err
	}
	c.States.OnLiveRead(func(parent.Ref) { liveReads.Inc() })
	c.WatchParents(func(err error) { o.Log.Error(err, "cannot watch a kind") })
	reporter, err := drift.ReporterOf(mgr, c.States, senders, v1alpha1.ManagerWebhook, o.Records, o.Log.WithName("drift"))
	if err != nil {
		return nil, nil, err
	}
	policies, err := policystore.New(c.Dynamic, o.Log.WithName("policies"), v1alpha1.PolicyResources()...)
	if err != nil {
		return nil, nil, err
	}
	schemas := kinds.NewSchemas(c.Kinds, c.Dynamic, c.Kubernetes.Discovery())
	policies.WithKinds(schemas)
	c.Kinds.OnDefined(func(schema.GroupKind) { policies.Recheck() })
	components := map[string]bool{self: true}
	for _, u := range o.ComponentUsers {
		components[u] = true
	}
	options := o.Admission
	options.Remember, options.Separates, options.Deadline = true, true, cmp.Or(options.Deadline, gating.DefaultDeadline)
	of, held := builds.New(c.Dynamic), drift.NewMemory()
	of.Caller = o.Caller
	w := &world{cluster: c, Permissions: permissions.New(c, o.Check), below: below{states: c.States, memory: held}, fresh: cluster.NewFresh(c, beat),
		memory: memory, settler: s, components: components, builds: of, controllers: o.Controllers}
	evaluator, err := admission.NewEvaluator(w, options, policies)
	if err != nil {
		return nil, nil, err
	}
	return &Decider{
		Evaluator: evaluator,
		Current: func(ctx context.Context, namespace string) (*admission.Evaluator, error) {
			return current(ctx, w, evaluator, policies, namespace)
		},
		Cluster: c, Policies: policies, Reporter: reporter, Memory: memory, Kinds: schemas, StatusReviewed: s.StatusReviewed, Voted: s.Voted,
		Log: o.Log.WithName("admission"), Records: o.Records, Held: held, Orphans: orphans.New(c, o.Log.WithName("orphans")), Builds: of,
		Unrecognized: utilcache.NewLRUExpireCache(maxUnrecognized),
	}, s, nil
}

// probes of readiness: a replica decides nothing before its caches are filled.
func probes(mgr manager.Manager, d *Decider) error {
	return errors.Join(
		mgr.AddReadyzCheck("drifts", d.Held.Ready),
		mgr.AddReadyzCheck("cluster", func(*http.Request) error { return d.Cluster.Ready() }),
		mgr.AddReadyzCheck("policies", func(*http.Request) error { return policiesRead(d) }),
	)
}

// Ready reports what is not read yet.
func (dr *Decider) Ready() error {
	return errors.Join(dr.Held.Ready(nil), dr.Cluster.Ready(), policiesRead(dr))
}

func policiesRead(dr *Decider) error {
	if !dr.Policies.HasSynced() {
		return errors.New("the policies are not read yet")
	}
	return nil
}

// addRollouts to a manager: the leader carries them out.
func (o Options) addRollouts(mgr manager.Manager, c *cluster.Cluster, d *Decider) error {
	direct, err := drift.Client(mgr)
	if err != nil {
		return err
	}
	r := &rollout.Controller{Cluster: c, Client: direct, Drifts: mgr.GetClient(), Policies: d.policies, Namespace: o.LeaderNamespace, Records: o.Records,
		Events: mgr.GetEventRecorder(v1alpha1.ManagerWebhook), Log: o.Log.WithName("rollouts")}
	r.Setup()
	return mgr.Add(r)
}

// recorded Drifts are those of the webhook; the gate reports external drift.
func recorded(d *v1alpha1.Drift) bool { return !drift.OfGate(d) }

// leading calls f when this replica is elected.
func leading(f func()) manager.Runnable {
	return manager.RunnableFunc(func(context.Context) error { f(); return nil })
}
