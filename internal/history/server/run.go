package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kausality-io/function-kausality/internal/history"
	"github.com/kausality-io/function-kausality/internal/history/stream"
	"github.com/kausality-io/function-kausality/internal/pause"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

const (
	// reviewTimeout of a TokenReview, and for how long answers of the API server count.
	reviewTimeout = 5 * time.Second
	reviewTTL     = 10 * time.Second
	// sweepEvery is how often records are deleted that are too old, and figures read.
	sweepEvery = time.Minute
	// sweepPause between two batches of deletions.
	sweepPause = 100 * time.Millisecond
	// grace for requests in progress in the end.
	grace = 10 * time.Second
)

// reviewBackoff of calls to the API server for one request.
var reviewBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// Options of the process.
type Options struct {
	Config *rest.Config
	Log    logr.Logger
	// Location of the store: a file, or a URL postgres://.
	Location string
	// HashKey of names; nil for none.
	HashKey []byte
	// Retention of records; 0 keeps them.
	Retention time.Duration
	// BindAddress is HOST:PORT; CertDir has tls.crt and tls.key.
	BindAddress, CertDir string
	// MetricsAddress and ProbeAddress are HOST:PORT; "0" turns them off.
	MetricsAddress, ProbeAddress string
	// TokenDir has the tokens of senders; empty for none.
	TokenDir string
	// NATS to read records from; none where URLs is empty.
	NATS stream.Options
}

// Run runs the server until the context ends, and then end the requests in progress.
func Run(ctx context.Context, o Options) error {
	store, err := history.Open(ctx, o.Location, history.Options{HashKey: o.HashKey})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	err = start(ctx, group, o, store)
	if err != nil {
		group.Go(func() error { return err }) // ends what was started
	}
	return errors.Join(group.Wait(), store.Close())
}

// start starts all parts in a group.
func start(ctx context.Context, group *errgroup.Group, o Options, store *history.Store) error {
	access, err := access(ctx, o)
	if err != nil {
		return err
	}
	files, err := certwatcher.New(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
	if err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	group.Go(func() error { return files.Start(ctx) })
	// Clients may have a certificate; the authenticator verifies it.
	config := &tls.Config{
		GetCertificate: files.GetCertificate, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	if err := serve(ctx, group, "--bind-address", o.BindAddress, New(store, access, o.Log).Handler(), config); err != nil {
		return err
	}
	probes := http.NewServeMux()
	probes.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	probes.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := store.Ping(r.Context()); err != nil {
			http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		}
	})
	if err := serve(ctx, group, "--health-probe-bind-address", o.ProbeAddress, probes, nil); err != nil {
		return err
	}
	if err := serve(ctx, group, "--metrics-bind-address", o.MetricsAddress, promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}), nil); err != nil {
		return err
	}
	group.Go(func() error { return sweep(ctx, o, store) })
	if o.NATS.URLs != "" {
		o.NATS.Log = o.Log
		group.Go(func() error { return stream.Run(ctx, o.NATS, store, Count) })
	}
	return nil
}

// serve serves on an address until the context ends; "0" serves nothing. The error names the flag.
func serve(ctx context.Context, group *errgroup.Group, flag, address string, handler http.Handler, config *tls.Config) error {
	if address == "0" || address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: cannot listen on %s: %w", flag, address, err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 2 * requestTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	group.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: %w", flag, err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return srv.Shutdown(end)
	})
	return nil
}

// access returns the access by the API server of this cluster.
func access(ctx context.Context, o Options) (*Access, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client: %w", err)
	}
	home, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read the UID of this cluster: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot create a client: %w", err)
	}
	a := &Access{Cluster: string(home.UID)}
	if a.Mapper, err = apiutil.NewDynamicRESTMapper(o.Config, httpClient); err != nil {
		return nil, fmt.Errorf("cannot discover resources: %w", err)
	}
	if o.TokenDir != "" {
		if a.Tokens, err = ReadTokens(o.TokenDir); err != nil {
			return nil, fmt.Errorf("--sender-tokens-dir: %w", err)
		}
	}
	return a, delegate(ctx, o, client, a)
}

// delegate delegates authentication and authorization to the API server.
func delegate(ctx context.Context, o Options, client kubernetes.Interface, a *Access) error {
	authorities, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem,
		"extension-apiserver-authentication", "client-ca-file", client)
	if err != nil {
		return fmt.Errorf("cannot watch the authorities of clients: %w", err)
	}
	if err := authorities.RunOnce(ctx); err != nil { // without it users with certificates are not known
		o.Log.Error(err, "cannot read the authorities of clients; users with certificates are unauthenticated")
	}
	go authorities.Run(ctx, 1)
	a.Authenticator, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{}, TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff: &reviewBackoff, CacheTTL: reviewTTL, ClientCertificateCAContentProvider: authorities,
	}.New()
	if err != nil {
		return fmt.Errorf("cannot delegate authentication: %w", err)
	}
	a.Authorizer, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(), AllowCacheTTL: reviewTTL, DenyCacheTTL: reviewTTL,
		WebhookRetryBackoff: &reviewBackoff,
	}.New()
	if err != nil {
		return fmt.Errorf("cannot delegate authorization: %w", err)
	}
	return nil
}

var (
	clusters = telemetry.NewGauge("kausality_history_clusters")
	shared   = telemetry.NewGauge("kausality_history_shared_names")
	unread   = telemetry.NewGauge("kausality_history_unread")
	newest   = telemetry.NewGauge("kausality_history_newest_timestamp_seconds") // no sample, not 0, for none
)

// sweep sweeps what is too old, and reads figures, until the context ends.
func sweep(ctx context.Context, o Options, store *history.Store) error {
	for {
		if err := expire(ctx, o.Retention, store); err != nil && ctx.Err() == nil {
			failures.WithLabelValues("expire").Inc()
			o.Log.Error(err, "cannot delete old records; trying again")
		}
		if stats, err := store.Stats(ctx); err == nil {
			clusters.WithLabelValues().Set(float64(stats.Clusters))
			shared.WithLabelValues().Set(float64(stats.SharedNames))
			unread.WithLabelValues().Set(float64(stats.Unread))
			if !stats.Newest.IsZero() {
				newest.WithLabelValues().Set(float64(stats.Newest.UnixMicro()) / 1e6)
			}
		} else if ctx.Err() == nil {
			o.Log.Error(err, "cannot read the figures of the store")
		}
		if !pause.For(ctx, sweepEvery) {
			return nil
		}
	}
}

// expire records in batches, with a pause after each.
func expire(ctx context.Context, retention time.Duration, store *history.Store) error {
	if retention <= 0 {
		return nil
	}
	for {
		_, more, err := store.Expire(ctx, time.Now().Add(-retention))
		if err != nil || !more {
			return err
		}
		if !pause.For(ctx, sweepPause) {
			return nil
		}
	}
}
