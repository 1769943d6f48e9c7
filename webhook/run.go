package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/manifests"
	"github.com/kausality-io/function-kausality/internal/policystore"
	"github.com/kausality-io/function-kausality/internal/telemetry"
	"github.com/kausality-io/function-kausality/webhook/review"
	"github.com/kausality-io/function-kausality/webhook/rollouts"
	"github.com/kausality-io/function-kausality/webhook/serving"
)

// Options of the webhook process.
type Options struct {
	decider.Options
	// CertDir holds tls.crt and tls.key, read again when they change.
	CertDir string
	// CertSecret in manifests.Namespace holds tls.crt and tls.key; it is watched, and CertDir is not used. Empty
	// for none.
	CertSecret string
	// ClientCAFile holds the authorities of the clients that are served; all are where it is empty.
	ClientCAFile string
	// BindAddress is HOST:PORT.
	BindAddress string
	// ShutdownDelay during which a replica that ends still answers, not ready. 0 ends it at once.
	ShutdownDelay time.Duration
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
	c, self, err := o.Connect(ctx)
	if err != nil {
		return err
	}
	mgr, err := o.manager()
	if err != nil {
		return err
	}
	o.Protection = heartbeat.Protection{ClientCertificates: o.ClientCAFile != "", ApproverRBAC: o.Admission.ApproverRBAC}
	d, err := decider.Add(mgr, c, self, o.Options)
	if err != nil {
		return err
	}
	end := &serving.Drain{Delay: o.ShutdownDelay}
	if err := o.serve(mgr, &Handler{d}, end); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ending", end.Ready); err != nil {
		return err
	}
	o.Log.Info("kausality webhook starts", "address", o.BindAddress, "user", self, "mode", o.Admission.DefaultMode)
	ctx, cancel := end.After(ctx)
	defer cancel()
	return mgr.Start(ctx)
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
	server := &manager.Server{Name: "webhook", Server: serving.NewServer(handlers(h, end)), Listener: l, ShutdownTimeout: new(cluster.ShutdownGrace)}
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
	cached := decider.Cached()
	if o.CertSecret != "" {
		cached[&corev1.Secret{}] = serving.WatchOnly(manifests.Namespace, o.CertSecret)
	}
	return decider.Manager(o.Options, cached)
}

// handlers by path. controller-runtime counts and times what they answer.
func handlers(h *Handler, end *serving.Drain) http.Handler {
	s := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	limits, known := review.NewInflight(), func(ctx context.Context) error { return decider.Known(ctx, h.Decider) }
	for path, handler := range map[string]http.Handler{
		PathMutate:   telemetry.Incoming(review.Once(known, review.Served(h.answer, limits, h.Log), h.Log)),
		PathPolicies: &ctrlwebhook.Admission{Handler: policystore.Validator{Kinds: h.Kinds}},
		PathRollouts: review.Once(known, review.Served(rollouts.Handler{Evaluator: h.Evaluator, Current: h.Evaluators, Claims: h.ClaimsKeys(), Log: h.Log}.Answer,
			limits, h.Log), h.Log),
		PathStatus: review.Served(StatusHandler{h}.answer, limits, h.Log),
	} {
		s.Register(path, end.Handler(handler))
	}
	return s.WebhookMux()
}

var openToAll = telemetry.NewGauge("kausality_webhook_open_to_all_clients").WithLabelValues()
