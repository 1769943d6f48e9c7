package webhook

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// slowReceiver of DriftReports holds the answer to those about one object until it is released, and accepts all others at once.
type slowReceiver struct {
	url, slow string
	held      chan struct{} // a report is held
	mu        sync.Mutex
	released  bool
	// got reports, and accepted ones of them, by the id of the Drift and the phase.
	got, accepted map[string]int
}

// startSlow receiver until the test ends.
func startSlow(t *testing.T, slow string) *slowReceiver {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &slowReceiver{url: "https://" + l.Addr().String(), slow: slow, held: make(chan struct{}, 100), got: map[string]int{}, accepted: map[string]int{}}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		_ = server.ServeTLS(l, filepath.Join(the.certs, "tls.crt"), filepath.Join(the.certs, "tls.key"))
	}()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// ServeHTTP accepts a report, or holds it until its sender is gone.
func (r *slowReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	report := v1alpha1.DriftReport{}
	if err := json.NewDecoder(req.Body).Decode(&report); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := report.Spec.ID + " " + string(report.Spec.Phase)
	r.mu.Lock()
	r.got[id]++
	hold := !r.released && report.Spec.Child.Namespace+"/"+report.Spec.Child.Name == r.slow
	if !hold {
		r.accepted[id]++
	}
	r.mu.Unlock()
	if hold {
		r.held <- struct{}{}
		<-req.Context().Done()
	}
}

// release what comes from now on.
func (r *slowReceiver) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = true
}

// TestDeliveryKilled: the leader is killed, as by kill -9, after one report was accepted and while another one is under way. The next leader sends
// that one, and not the first (KR-10-14). It runs alone, as TestReports does.
func TestDeliveryKilled(t *testing.T) {
	receiver := startSlow(t, "killed/second")
	f := startFleet(t, "killed", options{replicas: 2, args: []string{
		"--drift-webhook-url=" + receiver.url, "--drift-webhook-ca-file=" + the.certs + "/ca.crt", "--drift-webhook-timeout=1m",
	}})
	s := newFixture(t, f, "killed")
	s.settled("first", "second")
	first := s.eightRefusals("first")
	s.awaitDrift(first, "to be delivered", func(d *unstructured.Unstructured) bool { return delivery(d)["phase"] == string(v1alpha1.DriftDetected) })
	second := s.eightRefusals("second")
	wait.Receive(t, "the second report to be sent", time.Minute, receiver.held)
	for i := range f.replicas {
		f.crash(i)
	}
	receiver.release()
	for i := range f.replicas {
		f.restart(i)
	}
	s.awaitDrift(second, "to be delivered", func(d *unstructured.Unstructured) bool { return delivery(d)["phase"] == string(v1alpha1.DriftDetected) })
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	for id, n := range receiver.accepted {
		if n != 1 {
			t.Errorf("%s was accepted %d times", id, n)
		}
	}
	if len(receiver.accepted) < 2 || receiver.got[second+" Detected"] != 2 || receiver.got[first+" Detected"] != 1 {
		t.Errorf("got %v, accepted %v", receiver.got, receiver.accepted)
	}
}
