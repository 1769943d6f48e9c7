package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/certs"
	"github.com/kausality-io/function-kausality/internal/decider"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/webhook/review"
	"github.com/kausality-io/function-kausality/webhook/serving"
)

// TestServer: the server uses HTTP/1.1 also with clients that offer HTTP/2, keeps connections between
// reviews and for longer than an API server does, sends a Content-Length with long answers, and is ready.
func TestServer(t *testing.T) {
	state, _, err := certs.Rotation{Hosts: []string{"127.0.0.1"}}.Step(certs.State{}, time.Now())
	require.NoError(t, err)
	pair := &tls.Certificate{Certificate: [][]byte{state.Serving.Certificate.Raw}, PrivateKey: state.Serving.Key}
	l, err := serving.Listen("127.0.0.1:0", func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }, nil)
	require.NoError(t, err)
	h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard()}}
	s := serving.NewServer(handlers(h, &serving.Drain{}))
	ready := make(chan error)
	go func() { ready <- serving.Answers(l, nil)(&http.Request{}) }()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	assert.NoError(t, <-ready)

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(state.Bundle())
	apiServer := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	assert.Greater(t, s.IdleTimeout, apiServer.IdleConnTimeout)
	assert.Greater(t, s.ReadTimeout, apiServer.IdleConnTimeout, "holds for a connection that was not used yet")
	assert.Zero(t, s.ReadHeaderTimeout, "would go before")
	assert.Greater(t, s.WriteTimeout, serving.ReviewTimeout, "a review that took its time to arrive is still answered")

	long := thing(2)
	long["metadata"].(map[string]any)["annotations"] = map[string]any{"kausality.io/trace-ticket": strings.Repeat("x", 2<<10)}
	body := update(t, thing(1), long)
	for i := range 3 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+l.Addr().String()+PathMutate, bytes.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		resp, err := apiServer.RoundTrip(r)
		require.NoError(t, err)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "HTTP/1.1", resp.Proto)
		assert.Equal(t, i > 0, reused)
		assert.EqualValues(t, len(raw), resp.ContentLength)
		assert.Contains(t, string(raw), `"allowed":true`)
		assert.Greater(t, len(raw), 2<<10, "long enough")
	}
}

// TestHalfReview: a review that never ends is answered with 400 when its time is over, and its connection
// is closed. A connection that was never used is kept for as long as any other.
func TestHalfReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{&decider.Decider{Evaluator: &admission.Evaluator{World: emptyWorld{}}, Memory: settler.NewMemory(), Log: logr.Discard()}}
		s := serving.NewServer(handlers(h, &serving.Drain{}))
		l := pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error)
		go func() { served <- s.Serve(l) }()
		used, unused := l.dial(), l.dial()

		await.Sleep(s.IdleTimeout - time.Second)
		_, err := io.WriteString(used, "POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		asked := time.Now()
		_, err = io.ReadAll(unused)
		assert.NoError(t, err, "the server closes it")
		assert.Equal(t, time.Second, time.Since(asked))
		answer, err := io.ReadAll(used)
		assert.NoError(t, err, "the server closes it")
		assert.Equal(t, review.MaxWait, time.Since(asked), "it holds memory that others wait for (KR-13-28)")
		assert.Contains(t, string(answer), "HTTP/1.1 200 OK")
		assert.Contains(t, string(answer), `"code":400`)

		require.NoError(t, s.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// pipes is a listener without a network.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// Accept what is dialled.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close once.
func (p pipes) Close() error { close(p.done); return nil }

// Addr of nothing.
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
