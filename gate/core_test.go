package gate

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// TestDecideLive: a gate is opened after its holders were read live only, since a freeze may be newer than what their watch shows
// (KR-13-24); nothing is read for other actions.
func TestDecideLive(t *testing.T) {
	cl, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	c, o := leader(cl, &reporter{}).core, objectWith(nil)
	actions := []gating.Action{gating.ActionNone, gating.ActionOpen, gating.ActionClose, gating.ActionInstall, gating.ActionRestore}
	for _, action := range actions {
		var live []bool
		g := gating.Of(o.State, cl.Kinds.Kind(o.GroupVersionKind), o.External, c.cluster.Settings(o.State.Ref, nil), gating.Defaults{})
		d, err := c.decide(t.Context(), o, &g, func(g gating.Managed) gating.Decision {
			live = append(live, g.Live)
			if g.Live {
				return gating.Decision{Why: "it is frozen"}
			}
			return gating.Decision{Action: action}
		})
		require.NoError(t, err)
		if action == gating.ActionOpen {
			assert.Equal(t, []bool{false, true}, live)
			assert.Equal(t, gating.ActionNone, d.Action)
		} else {
			assert.Equal(t, []bool{false}, live, string(action))
			assert.Equal(t, action, d.Action)
		}
	}
}

// TestDecideByStoredPolicies: a gate is opened only if the policies that are stored let it, whatever their watch has, and is decided about
// again soon where they do not: the watch may have nothing to report. Where they cannot be read it is not opened (KR-13-74).
func TestDecideByStoredPolicies(t *testing.T) {
	var down bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down || !strings.HasSuffix(r.URL.Path, "/kausalities") {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"kausality.io/v1alpha1","kind":"KausalityList","metadata":{"resourceVersion":"1"},"items":[` +
			`{"apiVersion":"kausality.io/v1alpha1","kind":"Kausality","metadata":{"name":"all","uid":"1"},"spec":{"freeze":{},"resources":[` +
			`{"apiGroups":["example.org"],"resources":["*"]}]}}]}`))
	}))
	t.Cleanup(s.Close)
	o := objectWith(nil)
	o.State.GroupVersionKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Bucket"}
	decide := func() (gating.Decision, error) {
		cl, err := cluster.New(&rest.Config{Host: s.URL})
		require.NoError(t, err)
		c := leader(cl, &reporter{}).core
		g := gating.Of(o.State, cl.Kinds.Kind(o.GroupVersionKind), o.External, c.cluster.Settings(o.State.Ref, nil), gating.Defaults{})
		return c.decide(t.Context(), o, &g, func(g gating.Managed) gating.Decision {
			for _, h := range g.Holders {
				if h.Freeze(time.Now()) != nil {
					return gating.Decision{Why: "it is frozen"}
				}
			}
			return gating.Decision{Action: gating.ActionOpen}
		})
	}
	d, err := decide()
	require.NoError(t, err)
	assert.Equal(t, gating.Decision{Why: "it is frozen", Again: informer.FreshFor}, d)
	down = true
	_, err = decide()
	require.ErrorContains(t, err, "cannot read the Kausality policies")
}
