package operations

import (
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// emergency as docs/operations.md has it: the policy controller is gone, and then
// the webhook configuration.
func emergency(t *testing.T) {
	t.Helper()
	the.controller.Stop()
	require.NoError(t, the.admin.Resource(hooks).Delete(t.Context(), "kausality", forget))
}

// TestRetainedAfterEmergency: what is masked is restored when its policy was
// deleted while no component ran, and no configuration lists what was guarded.
func TestRetainedAfterEmergency(t *testing.T) {
	the.present(t)
	ns := namespace(t, "forgotten")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	played(t, ns, "orders", nil)
	closedGate(t, ns, "orders")
	emergency(t)
	require.NoError(t, the.admin.Resource(kausality).Delete(t.Context(), "shop", forget))
	require.NoError(t, the.controller.Restart())
	require.NoError(t, the.controller.Await(t.Context()))
	restoredTo(t, ns, "orders", "*")
}

// TestUninstallAfterEmergency: `helm uninstall` restores what is masked when there
// is no webhook configuration any more and no policy controller to make one, and
// leaves none behind.
func TestUninstallAfterEmergency(t *testing.T) {
	the.present(t)
	ns := namespace(t, "emergency")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	played(t, ns, "orders", nil)
	closedGate(t, ns, "orders")
	emergency(t)
	the.uninstall(t)
	restoredTo(t, ns, "orders", "*")
	if o, err := the.admin.Resource(hooks).Get(t.Context(), "kausality", metav1.GetOptions{}); !kerrors.IsNotFound(err) {
		t.Errorf("a webhook configuration stays: %v, error %v", o, err)
	}
}
