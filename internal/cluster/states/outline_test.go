package states

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/onepass"
)

// events are objects whose summaries depend on their managedFields.
var events = map[string]string{
	"Composite": `
metadata:
  managedFields:
  - {manager: hans, time: "2026-01-02T00:00:00Z", fieldsV1: {"f:spec": {"f:size": {}, "f:crossplane": {"f:resourceRefs": {}}}}}
  - {manager: xr, time: "2026-01-03T00:00:00Z", fieldsV1: {"f:spec": {"f:crossplane": {"f:resourceRefs": {"k:{}": {"f:name": {}}}}}}}
  - {manager: xr, subresource: status, time: "2026-01-03T00:00:00Z", fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"Synced"}': {"f:type": {}}}}}}
spec: {size: 1, crossplane: {resourceRefs: []}}
status: {conditions: [{type: Synced, status: "True", observedGeneration: 2}]}
`,
	"Managed": `
metadata:
  managedFields:
  - {manager: fn, time: "2026-01-02T00:00:00Z", fieldsV1: {"f:spec": {"f:forProvider": {"f:tags": {"f:a": {}}}}}}
  - {manager: gate, subresource: status, time: "2026-01-03T00:00:00Z", fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"Kausality"}': {}}}}}
  - {manager: provider, subresource: status, time: "2026-01-03T00:00:00Z", fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {"f:type": {}}}}}}
spec: {forProvider: {tags: {a: b}}}
status: {conditions: [{type: Ready, status: "True"}]}
`,
	"ObservedGeneration": `
metadata:
  managedFields:
  - {manager: hans, time: "2026-01-02T00:00:00Z", fieldsV1: {"f:data": {"f:a": {"f:b": {}}}}}
  - {manager: controller, subresource: status, fieldsV1: {"f:status": {"f:observedGeneration": {}}}}
status: {observedGeneration: 2}
`,
	"ConditionsWithoutKeys": `
metadata:
  managedFields:
  - {manager: other, subresource: status, fieldsV1: {"f:status": {"f:conditions": {'k:{"type":"Other"}': {"f:type": {}}}}}}
  - {manager: controller, subresource: status, fieldsV1: {"f:status": {"f:conditions": {}}}}
status: {conditions: [{type: Ready, status: "True"}]}
`,
}

// TestEventsHaveWhatIsSummedUp: what is not read of an event's object is no part of its summary.
func TestEventsHaveWhatIsSummedUp(t *testing.T) {
	for name, object := range events {
		t.Run(name, func(t *testing.T) {
			raw, err := yaml.YAMLToJSON([]byte("apiVersion: example.org/v1\nkind: Thing\n" + object))
			require.NoError(t, err)
			whole, err := onepass.Object(raw)
			require.NoError(t, err)
			outline, err := onepass.Outline(raw)
			require.NoError(t, err)
			read, err := json.Marshal(outline)
			require.NoError(t, err)
			if name != "ConditionsWithoutKeys" && name != "ObservedGeneration" {
				require.Less(t, len(read), len(raw), "something is left out")
			}
			a, b := &unstructured.Unstructured{Object: whole}, &unstructured.Unstructured{Object: outline}
			for _, role := range []parent.Role{parent.RoleNone, parent.RoleComposite, parent.RoleClaim, parent.RoleManaged, parent.RoleInstance} {
				require.Equal(t, parent.Sum(a, role), parent.Sum(b, role), role)
			}
			require.Equal(t, gating.Observe(a, ""), gating.Observe(b, ""))
		})
	}
}
