package cluster

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kausality-io/function-kausality/internal/await"
)

func resource(name, kind string) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true}
}

var (
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	appsServed = &metav1.APIResourceList{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{resource("deployments",
		"Deployment"), resource("deployments/status", "Deployment"), resource("controllerrevisions", "ControllerRevision")}}
)

// TestWatchParents: a guarded kind is watched where its status is reviewed, whichever replica
// has a request about its objects first (KR-01-07); a kind without one is not.
func TestWatchParents(t *testing.T) {
	cases := map[string]struct {
		reason string
		rules  []string
		want   string
	}{
		"Status": {reason: "both a CRD's kind and a built-in one", rules: []string{"shop.example.org/*", "shop.example.org/*/status",
			"apps/deployments", "apps/deployments/status"}, want: "App Db Deployment Plain"},
		"NoStatusRules": {reason: "nothing is reviewed that would show a controller", rules: []string{"shop.example.org/*", "apps/deployments"}, want: "App Db"},
		"Unguarded":     {reason: "neither is guarded", rules: []string{"other.example.org/*", "other.example.org/*/status"}, want: "Cache"},
		"NoStatus":      {reason: "ControllerRevisions have no status", rules: []string{"apps/*", "apps/*/status"}, want: "Deployment"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(deployment, meta.RESTScopeNamespace)
			c := covered(t, fixture{mapper: mapper, definitions: []definition{{gvk: shopPlain, status: true}}})
			c.WatchParents(func(err error) { t.Error(err) })
			served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{appsServed}}}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); c.Kinds.RunDiscovery(ctx, served) }()
			defer func() { cancel(); <-ended }()
			c.configured(true, tc.rules...)
			await.Poll(t, "what must be watched: "+tc.reason, func() bool { return c.watching() == tc.want && len(served.Actions()) > 0 })
			before := len(served.Actions())
			c.configured(true, "other.example.org/*")
			await.Poll(t, "another configuration to be discovered for", func() bool { return len(served.Actions()) > before })
			if got := c.watching(); got != "Cache" {
				t.Errorf("guarded no more, watched are %q", got)
			}
		})
	}
}
