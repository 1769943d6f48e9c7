package webhook

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// slowed is the kubeconfig of an API server that takes a time more for each request that is no watch.
func slowed(t *testing.T, by *atomic.Int64) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", the.kubeconfig)
	require.NoError(t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			if r.In.URL.Query().Get("watch") == "" {
				wait.Pause(t, time.Duration(by.Load()))
			}
			r.SetURL(target)
		},
	})
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"slow": {Server: srv.URL}},
		Contexts: map[string]*clientcmdapi.Context{"slow": {Cluster: "slow"}}, CurrentContext: "slow",
	}, path))
	return path
}

// unreadable reports whether err is our refusal of what could not be decided: on a loaded machine a read takes longer than it may.
func unreadable(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "ParentUnreadable: ") || strings.Contains(err.Error(), "denied the request: kausality: cannot "))
}

// TestSlowAPIServer: a webhook that fails open decides about everything while each of its reads and writes takes 1.2 seconds, a little
// less than it waits for one: the API server waits for the decision long enough (KR-12-12). The figures of docs/operations.md are of this test.
func TestSlowAPIServer(t *testing.T) {
	t.Parallel()
	var by atomic.Int64
	f := startFleet(t, "slow", options{replicas: 1, ignore: true, args: []string{"--kubeconfig=" + slowed(t, &by)}})
	s := newFixture(t, f, "slow")
	s.settled("part")
	n := 0
	// timed decisions about drift: unjudged ones, which pass, and the longest.
	timed := func() (unjudged int, longest time.Duration) {
		for range 5 {
			n++
			began := time.Now()
			err := s.count(s.ctrl, "part", 1000+n)
			longest = max(longest, time.Since(began))
			if !refused(err, "Drift") && !unreadable(err) {
				require.NoError(t, err)
				unjudged++
			}
		}
		return unjudged, longest
	}
	for _, delay := range []time.Duration{0, 500 * time.Millisecond, 1200 * time.Millisecond} {
		by.Store(int64(delay))
		unjudged, longest := timed()
		fmt.Printf("slow API server: %s for each request of the webhook: refusals take up to %s, %d of 5 changes pass unjudged\n",
			delay, longest.Round(10*time.Millisecond), unjudged)
		if unjudged > 0 {
			t.Errorf("with %s, %d changes passed without a decision", delay, unjudged)
		}
		by.Store(0)
		id := mustRefuse(t, s.count(s.ctrl, "part", 5000+n), "Drift")
		s.annotate(map[string]any{"kausality.io/approve-" + id: "once"})
		by.Store(int64(delay))
		var approved time.Duration
		wait.For(t, "the approved change", wait.Patience, func(context.Context) error {
			began := time.Now()
			err := s.count(s.ctrl, "part", 5000+n)
			approved = time.Since(began)
			return err // ParentUnreadable on a loaded machine
		})
		fmt.Printf("slow API server: %s: the use of an approval takes %s\n", delay, approved.Round(10*time.Millisecond))
		o, err := s.of(s.hans).Get(context.Background(), "part", metav1.GetOptions{})
		require.NoError(t, err)
		hop, err := hopOf(o)
		require.NoError(t, err)
		if hop.Approval == nil {
			t.Errorf("with %s, the approved change passed without a decision", delay)
		}
		by.Store(0)
		n++
	}
}
