package cluster

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestPoliciesWithoutCRD: a cluster without the CRD of the policies has none, and
// nothing waits for them.
func TestPoliciesWithoutCRD(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPolicies(client)
	if err != nil {
		t.Fatal(err)
	}
	if p.HasSynced() {
		t.Error("nothing was read yet")
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	until(t, "the policies to be known", p.HasSynced)
	if got := len(p.Set().Scopes()); got != 0 {
		t.Errorf("%d scopes without policies", got)
	}
	stop()
	<-done
}

// TestConfigurationByName: of all webhook configurations only ours is read.
func TestConfigurationByName(t *testing.T) {
	selectors := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case selectors <- r.URL.Query().Get("fieldSelector"):
		default: // enough of them
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	client, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	scope, err := NewScope(client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); scope.Run(ctx) }()
	for range 2 { // a list that streams, and one that does not
		if got := <-selectors; got != "metadata.name=kausality" {
			t.Errorf("read with field selector %q", got)
		}
	}
	stop()
	<-done
}
