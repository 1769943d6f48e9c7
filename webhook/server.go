package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kausality-io/function-kausality/policystore"
	"github.com/kausality-io/function-kausality/telemetry"
)

const (
	// idleTimeout is for how long a connection is kept that nobody uses, be it that
	// nobody ever did. The API server keeps one for 90 seconds: whoever closes it first
	// must be the one that sends, or a review may be on its way, which fails then.
	idleTimeout = 3 * time.Minute
	// reviewTimeout is for reading the rest of a review, and as much again is for
	// answering it: the longest that an API server can be told to wait.
	reviewTimeout = 30 * time.Second
)

// newServer of reviews, over HTTP/1.1: what the API server speaks to a Service, so
// that its connections lead to all replicas. See docs/design/0007-serving.md.
func newServer(handler http.Handler) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(reviewTimeout)) // any server's own writer can
			handler.ServeHTTP(w, r)
		}),
		// The time to read counts from the handshake on where a connection was not used yet.
		Protocols: protocols, MaxHeaderBytes: 64 << 10, IdleTimeout: idleTimeout, ReadTimeout: idleTimeout, WriteTimeout: 2 * reviewTimeout,
	}
}

// listen where the webhook is served.
func (o Options) listen(mgr manager.Manager, cert *certificate) (net.Listener, error) {
	get := cert.get
	if cert == nil {
		files, err := certwatcher.New(filepath.Join(o.CertDir, "tls.crt"), filepath.Join(o.CertDir, "tls.key"))
		if err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
		if err := mgr.Add(everywhere(func(ctx context.Context) {
			if err := files.Start(ctx); err != nil { // what was read is served on
				o.Log.Error(err, "cannot watch the serving certificate", "dir", o.CertDir)
			}
		})); err != nil {
			return nil, fmt.Errorf("cannot start: %w", err)
		}
		get = files.GetCertificate
	}
	l, err := tls.Listen("tcp", o.BindAddress, secure(get))
	if err != nil {
		return nil, cannotListen(o.BindAddress, err)
	}
	return l, nil
}

func secure(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
}

func cannotListen(address string, err error) error {
	return fmt.Errorf("--bind-address: cannot listen on %s: %w", address, errors.Unwrap(err))
}

// handlers by path. controller-runtime counts and times what they answer.
func handlers(h *Handler, end *drain) http.Handler {
	s := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	for path, handler := range map[string]http.Handler{
		PathMutate:   telemetry.Incoming(served(h.answer, h.Log)),
		PathPolicies: &ctrlwebhook.Admission{Handler: policystore.Validator{}},
		PathStatus:   served(StatusHandler{h}.answer, h.Log),
	} {
		s.Register(path, end.last(handler))
	}
	return s.WebhookMux()
}

// answers is a readiness check: the server takes connections.
func answers(l net.Listener) healthz.Checker {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // It is this process.
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		conn, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return fmt.Errorf("the webhook does not answer: %w", err)
		}
		return conn.Close()
	}
}
