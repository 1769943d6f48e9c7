package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

const (
	// idleTimeout is for how long an unused connection is kept, also one that was never used. The API
	// server keeps its connections for 90 seconds. It must be the first to close: a review that it sends
	// while we close would fail.
	idleTimeout = 3 * time.Minute
	// ReviewTimeout is for reading the rest of a review after its first byte, and as much again is for
	// answering it: the longest timeout of a webhook configuration.
	ReviewTimeout = 30 * time.Second
	// dialTimeout of the readiness check.
	dialTimeout = 5 * time.Second
)

// NewServer of reviews, over HTTP/1.1 only, which the API server uses to reach a Service, so that its
// connections lead to all replicas.
func NewServer(handler http.Handler) *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(ReviewTimeout)) // only wrapped writers cannot
			handler.ServeHTTP(w, r)
		}),
		// The first ReadTimeout of a connection counts from its handshake, so that it must not be shorter.
		Protocols: protocols, MaxHeaderBytes: 64 << 10, IdleTimeout: idleTimeout, ReadTimeout: idleTimeout, WriteTimeout: 2 * ReviewTimeout,
	}
}

// Listen on an address, HOST:PORT, with the certificate that get returns, for clients with a certificate of
// an authority in clients; nil for all clients (KR-13-11). The error names the flag.
func Listen(address string, get Get, clients *ClientCA) (net.Listener, error) {
	config := &tls.Config{GetCertificate: get, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.GetConfigForClient = clients.config(config.Clone())
	}
	l, err := tls.Listen("tcp", address, config)
	if err != nil {
		return nil, cannotListen(address, err)
	}
	return l, nil
}

// CheckAddress reports early if an address is taken.
func CheckAddress(address string) error {
	l, err := net.Listen("tcp", address) //nolint:noctx // It is closed at once.
	if err != nil {
		return cannotListen(address, err)
	}
	return l.Close()
}

func cannotListen(address string, err error) error {
	return fmt.Errorf("--bind-address: cannot listen on %s: %w", address, errors.Unwrap(err))
}

// Answers returns a readiness check: the server accepts connections. Where clients need certificates, it has
// none, and ends with the connection.
func Answers(l net.Listener, clients *ClientCA) healthz.Checker {
	type dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}
	var d dialer = &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // It is this process.
	if clients != nil {
		d = &net.Dialer{}
	}
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
		defer cancel()
		conn, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return fmt.Errorf("the webhook does not answer: %w", err)
		}
		return conn.Close()
	}
}
