package parent

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestInstanceSettles: an instance has converged in state ACTIVE, and Ready unless the author of its graph declares conditions
// instead of kro's (KR-18-03).
func TestInstanceSettles(t *testing.T) {
	const head = `
apiVersion: kro.run/v1alpha1
kind: Shop
metadata:
  name: db
  namespace: team
  generation: 2
  labels: {applyset.kubernetes.io/id: applyset-Ff_MDGH9n74jV8DO-Y-gXOZL2NbpR_aIP0HZv_x1640-v1}
  annotations: {applyset.kubernetes.io/tooling: kro/v0.9.3}
status:
`
	managed := condition("InstanceManaged", "True", "2")
	for name, tc := range map[string]struct {
		reason    string
		status    string
		converged bool
		observed  int64
	}{
		"Active": {reason: "and Ready", status: "  state: ACTIVE\n  conditions:\n" + managed + condition("Ready", "True", "2"), converged: true, observed: 2},
		"Behind": {reason: "of an earlier generation", status: "  state: ACTIVE\n  conditions:\n" + managed + condition("Ready", "True", "1"),
			converged: true, observed: 1},
		"NotReady":   {reason: "kro's own Ready counts", status: "  state: ACTIVE\n  conditions:\n" + managed + condition("Ready", "False", "2")},
		"InProgress": {reason: "children are not ready", status: "  state: IN_PROGRESS\n  conditions:\n" + managed + condition("Ready", "True", "2"), observed: 2},
		"Authors": {reason: "a Ready that is the author's does not", status: "  state: ACTIVE\n  conditions:\n" + condition("Ready", "False", ""),
			converged: true},
		"AuthorsError": {reason: "nor where it is True", status: "  state: ERROR\n  conditions:\n" + condition("Ready", "True", "")},
		"None":         {reason: "no condition at all", status: "  state: ACTIVE", converged: true},
		"New":          {reason: "no state yet", status: "  {}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Sum(parse(t, head+tc.status), RoleNone)
			assert.True(t, IsInstance(s))
			assert.Equal(t, tc.converged, s.Converged, tc.reason)
			assert.Equal(t, tc.observed, s.ObservedGeneration, tc.reason)
		})
	}
}
