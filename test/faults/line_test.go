package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// line from a component to the API server: a proxy that passes requests on with the
// credentials that they have, unless it has a fault.
type line struct {
	url string

	mu    sync.Mutex
	fault string
	// ended is closed when the fault ends.
	ended chan struct{}
	// broken ends all requests that are under way.
	broken context.Context //nolint:containedctx // It is that of all requests, not of a call.
	end    context.CancelFunc

	requests atomic.Int64
	// affected requests, by the fault that was begun last.
	affected atomic.Int64
}

func newLine(to, certs string, ca []byte) (*line, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &line{url: "https://" + listener.Addr().String()}
	l.broken, l.end = context.WithCancel(context.Background())
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 32},
		ErrorLog:  quiet, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if watches(r.Request) {
				r.Body = &muted{ReadCloser: r.Body, line: l, ctx: r.Request.Context()}
			}
			return nil
		},
		// The connection ends, as it does where there is no API server.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { l.serve(proxy, w, r) })}
	go func() {
		if err := server.ServeTLS(listener, filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key")); err != nil {
			fmt.Fprintln(os.Stderr, "a line ended:", err)
		}
	}()
	return l, nil
}

func watches(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func (l *line) state() (fault string, ended <-chan struct{}, broken context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault, l.ended, l.broken
}

// begin a fault. Where it concerns connections, those that there are end.
func (l *line) begin(fault string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.ended = fault, make(chan struct{})
	l.affected.Store(0)
	if fault == cut || fault == compacted {
		l.end()
		l.broken, l.end = context.WithCancel(context.Background())
	}
}

// finish the fault.
func (l *line) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault != "" {
		close(l.ended)
	}
	l.fault = ""
}

func (l *line) serve(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	fault, ended, broken := l.state()
	n := l.requests.Add(1)
	switch {
	case fault == cut: // packets are lost: no answer arrives
		l.affected.Add(1)
		select {
		case <-ended:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case fault == throttled && n%2 == 0:
		l.affected.Add(1)
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, "TooManyRequests")
		return
	case fault == throttled: // and slow
		slow, cancel := context.WithTimeout(r.Context(), time.Second)
		<-slow.Done()
		cancel()
	case fault == compacted && watches(r) && r.URL.Query().Get("resourceVersion") != "":
		l.affected.Add(1)
		answer(w, http.StatusGone, "Expired")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(broken, cancel)()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// answer as the API server does.
func answer(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a fault","reason":%q,"code":%d}`,
		reason, code) // a client that is gone needs no answer
}

// muted is the body of a watch: while the line is silent it has no events, and does not end.
type muted struct {
	io.ReadCloser
	line *line
	ctx  context.Context //nolint:containedctx // Read has none.
}

func (m *muted) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if fault, ended, _ := m.line.state(); fault == silent {
		m.line.affected.Add(1)
		select {
		case <-ended:
		case <-m.ctx.Done():
			return 0, m.ctx.Err()
		}
	}
	return n, err
}

// through a line: rewrites a kubeconfig.
func (l *line) through(file string, ca []byte) error {
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return err
	}
	for _, to := range c.Clusters {
		to.Server, to.CertificateAuthorityData = l.url, ca
	}
	return clientcmd.WriteToFile(*c, file)
}
