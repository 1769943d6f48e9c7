package parent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLinked: an instance contains objects of its ApplySet where its kind is one of kro's (KR-18-01).
func TestLinked(t *testing.T) {
	o := parse(t, `
apiVersion: kro.run/v1alpha1
kind: Shop
metadata:
  name: db
  namespace: team
  labels: {applyset.kubernetes.io/id: applyset-Ff_MDGH9n74jV8DO-Y-gXOZL2NbpR_aIP0HZv_x1640-v1}
  annotations: {applyset.kubernetes.io/tooling: kro/v0.9.3, applyset.kubernetes.io/contains-group-kinds: ConfigMap}`)
	child := Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "team", Name: "db"}
	assert.True(t, Linked(Sum(o, RoleInstance), child, true))
	for _, role := range []Role{RoleNone, RoleManaged, RoleComposite, RoleClaim} {
		assert.False(t, Linked(Sum(o, role), child, true), role)
	}
	claim := parse(t, `
apiVersion: example.org/v1
kind: Database
metadata: {name: db, namespace: team}
spec: {resourceRef: {name: xdb}}`)
	assert.True(t, Linked(Sum(claim, RoleClaim), Ref{Name: "xdb"}, false))
	assert.False(t, Linked(Sum(claim, RoleClaim), Ref{Name: "other"}, false))
}

// TestInstanceSettles: an instance has converged in state ACTIVE, at the generation that its conditions report (KR-18-03).
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
		"Behind": {reason: "of an earlier generation", status: "  state: ACTIVE\n  conditions:\n" + condition("Ready", "True", "1"),
			converged: true, observed: 1},
		"InProgress": {reason: "children are not ready", status: "  state: IN_PROGRESS\n  conditions:\n" + managed + condition("Ready", "True", "2"), observed: 2},
		"Authors": {reason: "conditions that are the author's do not count, their generation is kro's", converged: true, observed: 2,
			status: "  state: ACTIVE\n  conditions:\n" + condition("Healthy", "False", "2")},
		"AuthorsReady": {reason: "nor where they are of the types of kro's own", converged: true, observed: 2,
			status: "  state: ACTIVE\n  conditions:\n" + managed + condition("Ready", "False", "2")},
		"AuthorsError": {reason: "nor where they are True", status: "  state: ERROR\n  conditions:\n" + condition("Ready", "True", "2"), observed: 2},
		"AuthorsField": {reason: "a field of the status is the author's", converged: true, observed: 1,
			status: "  state: ACTIVE\n  observedGeneration: 2\n  conditions:\n" + condition("Ready", "True", "1")},
		"Ahead": {reason: "a generation that it never had", converged: true, observed: 1,
			status: "  state: ACTIVE\n  conditions:\n" + condition("Ready", "True", "3") + condition("Old", "True", "1")},
		"None": {reason: "no condition at all", status: "  state: ACTIVE", converged: true},
		"New":  {reason: "no state yet", status: "  {}"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Sum(parse(t, head+tc.status), RoleInstance)
			assert.Equal(t, tc.converged, s.Converged, tc.reason)
			assert.Equal(t, tc.observed, s.ObservedGeneration, tc.reason)
		})
	}
}
