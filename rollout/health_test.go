package rollout

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/cluster"
)

// TestNotReady: the reason names the condition that keeps an object from being healthy (KR-14-54).
func TestNotReady(t *testing.T) {
	condition := func(name string, status metav1.ConditionStatus, reason string) parent.Condition {
		return parent.Condition{Type: name, Status: status, Reason: reason}
	}
	for name, c := range map[string]struct {
		role       parent.Role
		conditions []parent.Condition
		want       string
	}{
		"no condition":     {parent.RoleComposite, nil, "it has no condition Synced"},
		"failed":           {parent.RoleComposite, []parent.Condition{condition("Synced", "False", "ReconcileError")}, "Synced is not True (ReconcileError)"},
		"without a reason": {parent.RoleComposite, []parent.Condition{condition("Synced", "Unknown", "")}, "Synced is not True"},
		"the second": {parent.RoleManaged, []parent.Condition{condition("Synced", "True", "Any"), condition("Ready", "False", "Creating")},
			"Ready is not True (Creating)"},
		"both are true": {parent.RoleManaged, []parent.Condition{condition("Synced", "True", ""), condition("Ready", "True", "")},
			"its status does not report it as current"},
		"another kind":      {parent.RoleNone, []parent.Condition{condition("Ready", "False", "Any")}, "its status does not report it as current"},
		"ready, not synced": {parent.RoleManaged, []parent.Condition{condition("Ready", "True", "Any")}, "it has no condition Synced"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &cluster.Object{State: &parent.State{Role: c.role, Conditions: c.conditions}}
			require.Equal(t, c.want, notReady(o))
		})
	}
}
