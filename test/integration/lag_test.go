package integration

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// lag of a replica's watches behind what is stored: as that of an API server
// under load.
const lag = time.Second

// lagging is the kubeconfig of an API server that is slow to tell watchers.
func lagging(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", the.kubeconfig)
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("watch") != "" {
				r.Body = late{r.Body}
			}
			return nil
		},
	})
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"lagging": {Server: srv.URL}},
		Contexts: map[string]*clientcmdapi.Context{"lagging": {Cluster: "lagging"}}, CurrentContext: "lagging",
	}, path))
	return path
}

// late hands on what it reads, later.
type late struct{ io.ReadCloser }

func (l late) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	time.Sleep(lag)
	return n, err
}

// TestLag: a freeze holds for the very next request to the replica that admitted
// it, and so does its end, however late the replica's watch tells.
func TestLag(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "lag", options{replicas: 1, args: []string{"--kubeconfig=" + lagging(t)}})
	s := newSite(t, f, "lag")
	s.settled("part")
	n := 0
	write := func() error { n++; return s.count(s.alice(), "part", n) }
	s.warm(write)
	s.annotate(map[string]any{v1alpha1.AnnotationKeyFreeze: "true"})
	mustRefuse(t, write(), "Frozen")
	s.annotate(map[string]any{v1alpha1.AnnotationKeyFreeze: nil})
	must(t, write())
}
