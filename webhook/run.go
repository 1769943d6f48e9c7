package webhook

import (
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
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
	"github.com/kausality-io/function-kausality/policystore"
	"github.com/kausality-io/function-kausality/records"
	"github.com/kausality-io/function-kausality/rollout"
	"github.com/kausality-io/function-kausality/telemetry"
	"github.com/kausality-io/function-kausality/webhook/builds"
	"github.com/kausality-io/function-kausality/webhook/orphans"
	"github.com/kausality-io/function-kausality/webhook/permissions"
	"github.com/kausality-io/function-kausality/webhook/review"
	"github.com/kausality-io/function-kausality/webhook/rollouts"
	"github.com/kausality-io/function-kausality/webhook/serving"
	"github.com/kausality-io/function-kausality/webhook/settler"
)

// Options of the webhook process.
type Options struct {
	cluster.Process
	// CertDir holds tls.crt and tls.key, read again when they change.
	CertDir string
	// CertSecret in CertNamespace holds tls.crt and tls.key; it is watched, and CertDir is not used. Empty
	// for none.
	CertSecret, CertNamespace string
	// ClientCAFile holds the authorities of the clients that are served; all are where it is empty.
	ClientCAFile string
	// BindAddress is HOST:PORT.
	BindAddress string
	// ComponentUsers are the user names of our other components.
	ComponentUsers []string
	// Controllers are the users who may be controllers.
	Controllers subject.Eligible
	// SettleGrace during which an XR must stay converged.
	SettleGrace time.Duration
	// ShutdownDelay during which a replica that ends still answers, not ready. 0 ends it at once.
	ShutdownDelay time.Duration
	Admission     admission.Options
	Endpoints     drift.Endpoints
	Reports       drift.ReportOptions
	// Records of what is decided; nil where none are kept.
	Records *records.Recorder
}

// Paths of the webhooks.
const (
	PathMutate = "/mutate"
	PathStatus = "/status"
	// PathPolicies is where policies are validated.
	PathPolicies = "/policies"
	// PathRollouts is where the votes for Rollouts are recorded.
	PathRollouts = "/rollouts"
)

// Run the webhook until the context ends.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	c, self, err := o.connect(ctx)
	if err != nil {
		return err
	}
	mgr, err := o.manager()
	if err != nil {
		return err
	}
	beat, err := c.NewHeartbeat(o.LeaderNamespace, cluster.WebhookHeartbeat)
	if err != nil {
		return err
	}
	beat.Reports = cluster.Protection{ClientCertificates: o.ClientCAFile != "", ApproverRBAC: o.Admission.ApproverRBAC}
	senders, err := drift.NewSenders(o.Endpoints)
	if err != nil {
		return err
	}
	h, s, err := o.handler(mgr, c, beat, self, senders)
	if err != nil {
		return err
	}
	end := &serving.Drain{Delay: o.ShutdownDelay}
	if err := o.serve(mgr, h, end); err != nil {
		return err
	}
	if err := probes(mgr, c, h, end); err != nil {
		return err
	}
	err = cluster.AddAll(mgr, c, beat, h.orphans, h.Policies, leading(h.Policies.Lead), s, h.Reporter, leading(s.Lead),
		serving.Everywhere(func(ctx context.Context) error { h.Policies.FinishClaims(ctx, s.Child); return nil }), cluster.GiveBack{Cluster: c})
	if err != nil {
		return err
	}
	if err := o.addRollouts(mgr, c, h); err != nil {
		return err
	}
	if err := drift.AddResolver(mgr, c, h.Reporter, h.Held, h.Evaluator.World.Author, o.Log); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	if err := drift.AddDeliverer(mgr, h.Reporter, senders, drift.AuthorOf(c, o.Reports), v1alpha1.ManagerWebhook, recorded); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	o.Log.Info("kausality webhook starts", "address", o.BindAddress, "user", self, "mode", o.Admission.DefaultMode)
	ctx, cancel := end.After(ctx)
	defer cancel()
	return mgr.Start(ctx)
}

// connect to the cluster, as a user whose name is self.
func (o Options) connect(ctx context.Context) (c *cluster.Cluster, self string, err error) {
	if c, err = cluster.New(o.Config); err != nil {
		return nil, "", err
	}
	c.Log, c.ClaimsKey = o.Log.WithName("cluster"), o.ClaimsKey
	self, err = c.Self(ctx, o.Log)
	return c, self, err
}

// check the certificate and the address before a client is made: a
// mistake in a flag is reported at once.
func (o Options) check() error {
	if o.CertSecret == "" {
		if err := serving.CheckDir(o.CertDir); err != nil {
			return err
		}
	}
	return serving.CheckAddress(o.BindAddress)
}

// serve reviews.
func (o Options) serve(mgr manager.Manager, h *Handler, end *serving.Drain) error {
	get, err := o.certificate(mgr)
	if err != nil {
		return err
	}
	clients, err := o.clients(mgr)
	if err != nil {
		return err
	}
	l, err := serving.Listen(o.BindAddress, get, clients)
	if err != nil {
		return err
	}
	grace := cluster.ShutdownGrace
	server := &manager.Server{Name: "webhook", Server: serving.NewServer(handlers(h, end)), Listener: l, ShutdownTimeout: &grace}
	return errors.Join(mgr.Add(server), mgr.AddReadyzCheck("webhook", serving.Answers(l, clients)))
}

// clients that are served; nil for all, which is logged and shown by a metric.
func (o Options) clients(mgr manager.Manager) (*serving.ClientCA, error) {
	if o.ClientCAFile == "" {
		openToAll.Set(1)
		o.Log.Info("the webhook answers every client that reaches its port; set --client-ca-file, or restrict the port by a NetworkPolicy " +
			"with the addresses of the API servers")
		return nil, nil //nolint:nilnil // No authority is no restriction, and no error.
	}
	clients, err := serving.NewClientCA(o.ClientCAFile)
	if err != nil {
		return nil, err
	}
	return clients, mgr.Add(clients)
}

// certificate to serve: that of CertSecret if it is set, else that in CertDir.
func (o Options) certificate(mgr manager.Manager) (serving.Get, error) {
	log := o.Log.WithName("certificate")
	if o.CertSecret == "" {
		return serving.FromDir(mgr, o.CertDir, log)
	}
	secret, err := serving.FromSecret(mgr, log)
	if err != nil {
		return nil, err
	}
	return secret.Get, mgr.AddReadyzCheck("certificate", secret.Ready)
}

// manager whose cache has the Drifts and, with CertSecret, that Secret.
func (o Options) manager() (manager.Manager, error) {
	cached := map[client.Object]cache.ByObject{&v1alpha1.Drift{}: {Transform: drift.Trim}}
	if o.CertSecret != "" {
		cached[&corev1.Secret{}] = serving.WatchOnly(o.CertNamespace, o.CertSecret)
	}
	return o.Manager(v1alpha1.ManagerWebhook, cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: cached},
		v1alpha1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme)
}

// handler of reviews, and the settler that writes what they show.
func (o Options) handler(mgr manager.Manager, c *cluster.Cluster, beat *cluster.Heartbeat, self string, senders []*drift.Sender) (
	*Handler, *settler.Settler, error) {
	memory := settler.NewMemory()
	s, err := settler.New(c, memory, o.SettleGrace, o.Log.WithName("settler"))
	if err != nil {
		return nil, nil, err
	}
	c.States.OnLiveRead(func(parent.Ref) { liveReads.Inc() })
	c.WatchParents(func(err error) { o.Log.Error(err, "cannot watch a kind") })
	reporter, err := o.reporter(mgr, c, senders)
	if err != nil {
		return nil, nil, err
	}
	policies, err := policystore.New(c.Dynamic, o.Log.WithName("policies"), v1alpha1.PolicyResources()...)
	if err != nil {
		return nil, nil, err
	}
	schemas := cluster.NewSchemas(c)
	policies.WithKinds(schemas)
	c.Kinds.OnDefined(func(schema.GroupKind) { policies.Recheck() })
	components := map[string]bool{self: true}
	for _, u := range o.ComponentUsers {
		components[u] = true
	}
	options := o.Admission
	options.Remember, options.Separates = true, true
	of, held := builds.New(c.Dynamic), drift.NewMemory()
	w := &world{cluster: c, Permissions: permissions.New(c), below: below{states: c.States, memory: held}, fresh: cluster.NewFresh(c, beat),
		memory: memory, settler: s, components: components, builds: of, controllers: o.Controllers}
	evaluator, err := admission.NewEvaluator(w, options, policies)
	if err != nil {
		return nil, nil, err
	}
	return &Handler{
		Evaluator: evaluator,
		Current: func(ctx context.Context, namespace string) (*admission.Evaluator, error) {
			return current(ctx, w, evaluator, policies, namespace)
		},
		Cluster: c, Policies: policies, Reporter: reporter, Memory: memory, Kinds: schemas, StatusReviewed: s.StatusReviewed, Voted: s.Voted,
		Log: o.Log.WithName("admission"), Records: o.Records, Held: held, orphans: orphans.New(c, o.Log.WithName("orphans")), builds: of,
		unrecognized: utilcache.NewLRUExpireCache(maxUnrecognized),
	}, s, nil
}

// reporter of drift, which writes Drifts with a client of its own, past the cache:
// two replicas may report the same drift at once.
func (o Options) reporter(mgr manager.Manager, c *cluster.Cluster, senders []*drift.Sender) (*drift.Reporter, error) {
	direct, err := drift.Client(mgr)
	if err != nil {
		return nil, err
	}
	return drift.NewReporter(drift.Config{
		Client: direct, Receivers: drift.Names(senders), Log: o.Log.WithName("drift"), Records: o.Records,
		Events:   mgr.GetEventRecorder(v1alpha1.ManagerWebhook),
		Recurred: drift.ForgetUsedApprovals(c.States, v1alpha1.ManagerWebhook),
		Approved: drift.EndLeftoverApprovals(c.States, v1alpha1.ManagerWebhook),
	})
}

// handlers by path. controller-runtime counts and times what they answer.
func handlers(h *Handler, end *serving.Drain) http.Handler {
	s := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	limits := review.NewInflight()
	for path, handler := range map[string]http.Handler{
		PathMutate:   telemetry.Incoming(review.Served(h.answer, limits, h.Log)),
		PathPolicies: &ctrlwebhook.Admission{Handler: policystore.Validator{Kinds: h.Kinds}},
		PathRollouts: review.Served(rollouts.Handler{Evaluator: h.Evaluator, Current: h.evaluator, Claims: claimsKeys(h), Log: h.Log}.Answer, limits, h.Log),
		PathStatus:   review.Served(StatusHandler{h}.answer, limits, h.Log),
	} {
		s.Register(path, end.Handler(handler))
	}
	return s.WebhookMux()
}

// probes of readiness: a replica receives no requests before its caches are filled,
// nor while it ends.
func probes(mgr manager.Manager, c *cluster.Cluster, h *Handler, end *serving.Drain) error {
	return errors.Join(
		mgr.AddReadyzCheck("drifts", h.Held.Ready),
		mgr.AddReadyzCheck("ending", end.Ready),
		mgr.AddReadyzCheck("cluster", func(*http.Request) error { return c.Ready() }),
		mgr.AddReadyzCheck("policies", func(*http.Request) error {
			if !h.Policies.HasSynced() {
				return errors.New("the policies are not read yet")
			}
			return nil
		}),
	)
}

// addRollouts to a manager: the leader carries them out.
func (o Options) addRollouts(mgr manager.Manager, c *cluster.Cluster, h *Handler) error {
	direct, err := drift.Client(mgr)
	if err != nil {
		return err
	}
	r := &rollout.Controller{Cluster: c, Client: direct, Drifts: mgr.GetClient(), Policies: h.policies, Namespace: o.LeaderNamespace, Records: o.Records,
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
