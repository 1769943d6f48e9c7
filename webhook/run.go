package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrlruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
	"github.com/kausality-io/function-kausality/drift"
	"github.com/kausality-io/function-kausality/policystore"
)

// Options of the webhook process.
type Options struct {
	Config *rest.Config
	// CertDir holds tls.crt and tls.key, read again when they change.
	CertDir string
	// CertSecret in CertNamespace holds tls.crt and tls.key; it is watched, and
	// takes the place of CertDir.
	CertSecret, CertNamespace string
	// BindAddress, MetricsAddress and ProbeAddress are HOST:PORT; "0" turns
	// metrics or probes off.
	BindAddress, MetricsAddress, ProbeAddress string
	// ComponentUsers are the user names of our other components.
	ComponentUsers []string
	// ApproverRBAC asks for the verb "approve" where user annotations are set.
	ApproverRBAC bool
	// SettleGrace during which an XR must stay converged.
	SettleGrace time.Duration
	// ShutdownDelay during which a replica that is told to end goes on
	// answering, not ready any more. 0 ends it at once.
	ShutdownDelay time.Duration
	// LeaderElection of the asynchronous writer, in LeaderNamespace.
	LeaderElection  bool
	LeaderNamespace string
	Admission       admission.Options
	Endpoints       drift.Endpoints
	Log             logr.Logger
}

// Paths of the webhooks.
const (
	PathMutate = "/mutate"
	PathStatus = "/status"
	// PathPolicies is where policies are validated.
	PathPolicies = "/policies"
)

// shutdownGrace is how long what is under way may take in the end.
const shutdownGrace = 10 * time.Second

// Run the webhook until the context ends.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	c, err := cluster.New(o.Config)
	if err != nil {
		return err
	}
	self, err := c.Self(ctx, o.Log)
	if err != nil {
		return err
	}
	var cert *certificate
	if o.CertSecret != "" {
		if cert, err = newCertificate(c.Kubernetes, o.CertNamespace, o.CertSecret, o.Log.WithName("certificate")); err != nil {
			return err
		}
	}
	mgr, err := o.manager()
	if err != nil {
		return err
	}
	h, w, err := o.handler(mgr, c, self)
	if err != nil {
		return err
	}
	l, err := o.listen(mgr, cert)
	if err != nil {
		return err
	}
	end, grace := &drain{delay: o.ShutdownDelay}, shutdownGrace
	if err := probes(mgr, c, h.Policies, cert, end, l); err != nil {
		return err
	}
	if cert != nil {
		if err := mgr.Add(cert); err != nil {
			return fmt.Errorf("cannot start: %w", err)
		}
	}
	for _, r := range []manager.Runnable{
		&manager.Server{Name: "webhook", Server: newServer(handlers(h, end)), Listener: l, ShutdownTimeout: &grace},
		c, h.Policies, leading(h.Policies.Lead), everywhere(w.Run), h.Reporter, everywhere(collect), leading(w.elected),
		everywhere(func(ctx context.Context) { h.Policies.FinishClaims(ctx, w.child) }), cluster.GiveBack{Cluster: c},
	} {
		if err := mgr.Add(r); err != nil {
			return fmt.Errorf("cannot start: %w", err)
		}
	}
	if err := drift.AddResolver(mgr, c, h.Reporter, o.Log); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	o.Log.Info("kausality webhook starts", "address", o.BindAddress, "user", self, "mode", o.Admission.DefaultMode)
	ctx, cancel := end.after(ctx)
	defer cancel()
	return mgr.Start(ctx)
}

func (o Options) check() error {
	if o.CertSecret != "" {
		return o.checkAddress()
	}
	for _, f := range []string{"tls.crt", "tls.key"} {
		if _, err := os.Stat(filepath.Join(o.CertDir, f)); err != nil {
			return fmt.Errorf("--cert-dir: %s holds no %s; put the serving certificate there", o.CertDir, f)
		}
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key")); err != nil {
		return fmt.Errorf("--cert-dir: cannot use the certificate in %s: %w; put a PEM certificate and its key there", o.CertDir, err)
	}
	return o.checkAddress()
}

func (o Options) checkAddress() error {
	l, err := net.Listen("tcp", o.BindAddress) //nolint:noctx // Closed at once: it only tells a taken port early and plainly.
	if err != nil {
		return cannotListen(o.BindAddress, err)
	}
	return l.Close()
}

func (o Options) manager() (manager.Manager, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	grace := shutdownGrace
	mgr, err := ctrlruntime.NewManager(o.Config, manager.Options{
		Scheme: scheme, Logger: o.Log, Metrics: server.Options{BindAddress: o.MetricsAddress},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), DefaultWatchErrorHandler: cluster.WatchFailed,
			ByObject: map[client.Object]cache.ByObject{&v1alpha1.Drift{}: {Transform: drift.Trim}}},
		HealthProbeBindAddress: o.ProbeAddress, GracefulShutdownTimeout: &grace,
		LeaderElection: o.LeaderElection, LeaderElectionID: "kausality-webhook", LeaderElectionNamespace: o.LeaderNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start: %w", err)
	}
	return mgr, nil
}

func (o Options) handler(mgr manager.Manager, c *cluster.Cluster, self string) (*Handler, *writer, error) {
	direct, err := drift.Client(mgr)
	if err != nil {
		return nil, nil, err
	}
	sender, err := drift.NewSender(o.Endpoints, o.Log.WithName("notify"))
	if err != nil {
		return nil, nil, err
	}
	t := newTracker()
	w := newWriter(c, t, o.SettleGrace, o.Log.WithName("writer"))
	components := map[string]bool{self: true}
	for _, u := range o.ComponentUsers {
		components[u] = true
	}
	c.States.OnLiveRead(func(parent.Ref) { liveReads.Inc() })
	c.States.OnUnwatch(func(o *cluster.Object) { t.forget(o.State.UID) })
	c.WatchParents(func(err error) { o.Log.Error(err, "cannot watch a kind") })
	if o.ApproverRBAC {
		o.Admission.MayApprove = newApprover(c).may
	}
	o.Admission.Settings, o.Admission.Initialized, o.Admission.Removing = c.Settings, c.Policies.Initialized, c.Scope.Removing
	reporter, err := drift.NewReporter(drift.Config{
		Client: direct, Sender: sender, Log: o.Log.WithName("notify"),
		Recurred: drift.ForgetUsedApprovals(c, ManagerWebhook), Initialized: c.Policies.Initialized,
	})
	if err != nil {
		return nil, nil, err
	}
	policies, err := policystore.New(c.Dynamic, o.Log.WithName("policies"))
	if err != nil {
		return nil, nil, err
	}
	h := &Handler{
		Evaluator: &admission.Evaluator{World: &world{cluster: c, tracker: t, components: components, noticed: w.notice, builds: newBuilds(c.Dynamic)},
			Options: o.Admission, Policies: policies},
		Policies: policies, Cluster: c, Log: o.Log.WithName("admission"), tracker: t, recorded: w.saw,
		Reporter: reporter,
	}
	return h, w, nil
}

func probes(mgr manager.Manager, c *cluster.Cluster, policies *policystore.Store, cert *certificate, end *drain, l net.Listener) error {
	if cert != nil {
		if err := mgr.AddReadyzCheck("certificate", cert.ready); err != nil {
			return err
		}
	}
	if err := mgr.AddReadyzCheck("policies", func(*http.Request) error {
		if !policies.HasSynced() {
			return errors.New("the policies are not read yet")
		}
		return nil
	}); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", func(*http.Request) error { return nil }); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ending", end.ready); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("cluster", func(*http.Request) error { return c.Ready() }); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook", answers(l))
}

// everywhere runs on every replica.
type everywhere func(context.Context)

// Start until the context ends.
func (f everywhere) Start(ctx context.Context) error { f(ctx); return nil }

// NeedLeaderElection is false.
func (everywhere) NeedLeaderElection() bool { return false }

// leading is called when this replica is elected.
type leading func()

// Start calls it.
func (f leading) Start(context.Context) error { f(); return nil }
