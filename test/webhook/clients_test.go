package webhook

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"testing"
	"time"
)

// TestClients: with --client-ca-file the webhook answers the API server, which presents
// a certificate by its AdmissionConfiguration, and no client without one (KR-13-11).
func TestClients(t *testing.T) {
	t.Parallel()
	f := startFleet(t, "clients", options{replicas: 1, args: []string{"--client-ca-file=" + the.ClientCA()}})
	newFixture(t, f, "clients").settled("part") // which the webhook decides, and a failure policy of Fail would refuse
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // It is the server that is tested.
	}}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.replicas[0].url+"/mutate", bytes.NewReader([]byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Do(r); err == nil {
		_ = resp.Body.Close()
		t.Fatalf("a client without a certificate got %s", resp.Status)
	}
}
