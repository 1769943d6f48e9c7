package changes

import (
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/rights"
)

// emergency as docs/operations.md has it: the policy controller is gone, and then
// the webhook configuration.
func emergency(t *testing.T) {
	t.Helper()
	the.Controller.Stop()
	require.NoError(t, the.Admin.Resource(site.Hooks).Delete(t.Context(), "kausality", site.Forget))
}

// TestRetainedAfterEmergency: what is masked is restored when its policy was
// deleted while no component ran, and no configuration lists what was guarded.
func TestRetainedAfterEmergency(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "forgotten")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "orders", nil)
	the.ClosedGate(t, ns, "orders")
	emergency(t)
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "shop", site.Forget))
	require.NoError(t, the.Controller.Restart())
	require.NoError(t, the.Controller.Await(t.Context()))
	the.RestoredTo(t, ns, "orders", "*")
}

// TestUninstallAfterEmergency: `helm uninstall` restores what is masked when there
// is no webhook configuration any more and no policy controller to make one, and
// leaves none behind.
func TestUninstallAfterEmergency(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "emergency")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "orders", nil)
	the.ClosedGate(t, ns, "orders")
	emergency(t)
	the.Uninstall(t)
	the.RestoredTo(t, ns, "orders", "*")
	if o, err := the.Admin.Resource(site.Hooks).Get(t.Context(), "kausality", metav1.GetOptions{}); !kerrors.IsNotFound(err) {
		t.Errorf("a webhook configuration stays: %v, error %v", o, err)
	}
	rights.Show(t, the.AuditLog())
}
