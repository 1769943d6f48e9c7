package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// proxy hands each request to the next of its backends, as a Service does with
// connections. It retries nothing: the API server sees the error of a dead backend.
type proxy struct {
	url  string
	next atomic.Int64
	// pinned is the number, from 1, of the one backend that gets all requests; 0
	// for none.
	pinned atomic.Int64
	// apart: the other one of two gets what is about statuses, as where the API
	// server's two connections lead to two replicas.
	apart atomic.Bool
	// seen counts the requests to each backend.
	seen []atomic.Int64
	// lost is called in place of passing on the next answer; nil for none.
	lost atomic.Pointer[func()]
}

// lose the next answer to a decision: the replica has done all it does before it
// answers, and the API server does not get the answer.
func (p *proxy) lose(then func()) { p.lost.Store(&then) }

func newProxy(t *testing.T, backends []string) *proxy {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(the.CA().Bundle())
	p := &proxy{seen: make([]atomic.Int64, len(backends))}
	targets := make([]*url.URL, 0, len(backends))
	for _, b := range backends {
		u, err := url.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, u)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 16}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	srv := &http.Server{ErrorLog: quiet, ReadHeaderTimeout: 5 * time.Second, Handler: &httputil.ReverseProxy{
		Transport: transport, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			n := int(p.next.Add(1)) % len(targets)
			if pin := int(p.pinned.Load()); pin > 0 {
				n = pin - 1
				if p.apart.Load() && r.In.URL.Path == "/status" {
					n = 1 - n
				}
			}
			p.seen[n].Add(1)
			r.SetURL(targets[n])
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != "/mutate" {
				return nil
			}
			if then := p.lost.Swap(nil); then != nil {
				(*then)()
				return errors.New("the answer is lost")
			}
			return nil
		},
	}}
	go func() {
		err := srv.ServeTLS(l, filepath.Join(the.certs, "tls.crt"), filepath.Join(the.certs, "tls.key"))
		if !errors.Is(err, http.ErrServerClosed) {
			fmt.Println("proxy:", err)
		}
	}()
	t.Cleanup(func() { _ = srv.Close(); transport.CloseIdleConnections() })
	p.url = "https://" + l.Addr().String()
	return p
}

// spread fails the test unless every backend was called.
func (p *proxy) spread(t *testing.T) {
	t.Helper()
	for i := range p.seen {
		if p.seen[i].Load() == 0 {
			t.Errorf("replica %d was never called: the test shows nothing about it", i)
		}
	}
}
