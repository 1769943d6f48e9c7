package decider

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
	"github.com/kausality-io/function-kausality/internal/policystore"
)

// TestCurrent: requests are decided by the policies of the watches while these are in time, by those that are stored while they are
// late, with the labels of the Namespace as they are stored, and not at all where the policies cannot be read then (KR-13-74).
func TestCurrent(t *testing.T) {
	var down atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`
		switch {
		case down.Load():
			http.Error(w, "down", http.StatusInternalServerError)
			return
		case strings.HasSuffix(r.URL.Path, "/namespaces"):
			body = strings.Replace(body, "[]", `[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{"incident":"true"}}}]`, 1)
		case strings.HasSuffix(r.URL.Path, "/kausalities"):
			body = strings.Replace(body, "[]", `[{"apiVersion":"kausality.io/v1alpha1","kind":"Kausality","metadata":{"name":"incidents","uid":"1"},`+
				`"spec":{"freeze":{},"namespaces":{"selector":{"matchLabels":{"incident":"true"}}},"resources":[{"apiGroups":["example.org"],"resources":["*"]}]}}]`, 1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	shop := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}, Namespace: "shop", Name: "app"}
	decidedBy := func(late bool) (e, given *admission.Evaluator, err error) {
		c, err := cluster.New(&rest.Config{Host: s.URL})
		require.NoError(t, err)
		var beat *heartbeat.Heartbeat // none is never late
		if late {
			beat, err = heartbeat.New(c.Dynamic, "home", "beat", c.Log) // nothing has come yet
			require.NoError(t, err)
		}
		store, err := policystore.New(c.Dynamic, logr.Discard(), v1alpha1.PolicyResources()...)
		require.NoError(t, err)
		w := &world{cluster: c, fresh: cluster.NewFresh(c, beat)}
		given = &admission.Evaluator{World: w, Policies: store}
		e, err = current(t.Context(), w, given, store, "shop")
		return e, given, err
	}
	e, given, err := decidedBy(false)
	require.NoError(t, err)
	assert.Same(t, given, e)
	assert.Empty(t, e.World.Settings(shop, nil).Freezes, "the watch has nothing")

	e, given, err = decidedBy(true)
	require.NoError(t, err)
	assert.Len(t, e.World.Settings(shop, nil).Freezes, 1)
	assert.NotNil(t, e.Policies.Policies())
	assert.Empty(t, given.World.Settings(shop, nil).Freezes, "other requests are decided by what they read")

	down.Store(true)
	_, _, err = decidedBy(true)
	require.ErrorContains(t, err, "cannot decide while the watches are late: cannot read ")
	e, _, err = decidedBy(false)
	require.NoError(t, err)
	assert.NotNil(t, e)
}
