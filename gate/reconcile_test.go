package gate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/cluster"
)

// TestDecideLive: a gate is opened after its holders were read live only, since a freeze may be newer than what their watch shows
// (KR-13-24); nothing is read for other actions.
func TestDecideLive(t *testing.T) {
	cl, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	c, o := &Controller{Cluster: cl}, objectWith(nil)
	actions := []gating.Action{gating.ActionNone, gating.ActionOpen, gating.ActionClose, gating.ActionInstall, gating.ActionRestore}
	for _, action := range actions {
		var live []bool
		g := gating.Of(o.State, cl.Kinds.Kind(o.GroupVersionKind), o.External, c.Cluster.Settings(o.State.Ref, nil), gating.Defaults{})
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
