package drift

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// running Sender, until the test ends.
func running(t *testing.T, s *Sender) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
}

func reportNamed(id string) v1alpha1.DriftReport {
	return v1alpha1.DriftReport{Spec: v1alpha1.DriftReportSpec{ID: id}}
}

// TestSenderRetries: a report that is refused is posted again, before those behind it; one that is refused each
// time is given up, and those behind it are posted.
func TestSenderRetries(t *testing.T) {
	cases := map[string]struct {
		reason    string
		codes     []int
		want      []string
		delivered int64
	}{
		"Accepted":  {reason: "in order", want: []string{"a", "b"}, delivered: 2},
		"Retried":   {reason: "the order stays", codes: []int{500, 503}, want: []string{"a", "b"}, delivered: 2},
		"Redirect":  {reason: "only 2xx is an acceptance", codes: []int{304}, want: []string{"a", "b"}, delivered: 2},
		"GivenUp":   {reason: "after all attempts, of which there are 4 here", codes: []int{500, 500, 500, 500}, want: []string{"b"}, delivered: 1},
		"LastTried": {reason: "the last attempt counts", codes: []int{500, 500, 500}, want: []string{"a", "b"}, delivered: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, s := newTestEndpoint(t, tc.codes...)
			var delivered atomic.Int64
			for _, id := range []string{"a", "b"} { // before it runs: nothing is lost
				s.Send(reportNamed(id), func() { delivered.Add(1) })
			}
			running(t, s)
			var ids []string
			for _, r := range e.wait(t, len(tc.want)) {
				ids = append(ids, r.Spec.ID)
			}
			assert.Equal(t, tc.want, ids, tc.reason)
			assert.Eventually(t, func() bool { return delivered.Load() == tc.delivered }, 10*time.Second, time.Millisecond)
		})
	}
}

// TestSenderEndpoints: an endpoint that is down delays no other.
func TestSenderEndpoints(t *testing.T) {
	e, good := newTestEndpoint(t)
	_, bad := newTestEndpoint(t)
	blocked := make(chan struct{})
	down := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-blocked }))
	t.Cleanup(func() { close(blocked); down.Close() })
	bad.endpoints[0].url = down.URL
	q, err := newQueue("down", 1, logr.Discard(), func(ctx context.Context, d delivery) error { return bad.deliver(ctx, down.URL, d) })
	require.NoError(t, err)
	good.endpoints = append([]endpoint{{url: down.URL, queue: q}}, good.endpoints...)
	bad.client = down.Client()
	running(t, good)
	for _, id := range []string{"a", "b", "c"} {
		good.Send(reportNamed(id), func() {})
	}
	assert.Len(t, e.wait(t, 3), 3)
}

// TestSenderPanics: a panic costs one report, and the others are delivered (KR-13-02).
func TestSenderPanics(t *testing.T) {
	e, s := newTestEndpoint(t)
	running(t, s)
	s.Send(reportNamed("a"), func() { panic("poison") })
	s.Send(reportNamed("b"), func() {})
	assert.Len(t, e.wait(t, 2), 2)
	later := make(chan struct{})
	s.Send(reportNamed("c"), func() { close(later) })
	<-later
}

// TestSenderWithoutEndpoints: a Drift is recorded as notified if there is no endpoint.
func TestSenderWithoutEndpoints(t *testing.T) {
	delivered := false
	(&Sender{}).Send(reportNamed("a"), func() { delivered = true })
	assert.True(t, delivered)
}

// TestNewSender: faults of the flags are reported by their names.
func TestNewSender(t *testing.T) {
	dir := t.TempDir()
	empty, good := filepath.Join(dir, "empty.crt"), filepath.Join(dir, "ca.crt")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(good, raw, 0o600))
	cases := map[string]struct {
		endpoints Endpoints
		want      string
	}{
		"Valid":     {endpoints: Endpoints{URLs: []string{"https://a:8443/drift"}, CAFile: good}},
		"PlainHTTP": {endpoints: Endpoints{URLs: []string{"http://a/drift"}}, want: "--drift-webhook-url"},
		"NoHost":    {endpoints: Endpoints{URLs: []string{"https:///drift"}}, want: "--drift-webhook-url"},
		"NoFile":    {endpoints: Endpoints{CAFile: filepath.Join(dir, "none")}, want: "--drift-webhook-ca-file"},
		"NoPEM":     {endpoints: Endpoints{CAFile: empty}, want: "holds no PEM certificate"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := NewSender(tc.endpoints, logr.Discard())
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
