package kro

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
)

// branch is a graph with a child in another namespace, and with conditions that its author declares, in place of kro's own.
const branch = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: branch}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Branch
    spec: {office: string, message: string}
    status:
      conditions:
      - "${runtime.newCondition({type: 'Open', status: 'True', reason: 'Always', message: 'it is open'})}"
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}", namespace: "${schema.spec.office}"}
      data: {message: "${schema.spec.message}", tier: silver}
`

// TestElsewhere: a child in another namespace has the instance as its parent, and an instance settles whose author declares other
// conditions than kro's (KR-18-01, KR-18-03).
func TestElsewhere(t *testing.T) {
	ns, office := namespace(t, "branch"), namespace(t, "office")
	all := as(t, hans).Resource(branches).Namespace(ns)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Branch",
		"spec": map[string]any{"office": office, "message": "hello"}}}
	o.SetName("db")
	_, err := all.Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	data(t, office, "message", "hello")
	settledAs(t, branches, ns, 1)
	assert.Equal(t, []string{"Branch hans@example.com", "ConfigMap " + controlplane.KroUser}, hops(t, child(t, configMaps, office)))
	o, err = all.Get(t.Context(), "db", metav1.GetOptions{})
	require.NoError(t, err)
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	if assert.Len(t, conditions, 1) {
		assert.Equal(t, "Open", conditions[0].(map[string]any)["type"])
	}

	patch(t, hans, branches, ns, "db", `{"spec":{"message":"bye"}}`)
	data(t, office, "message", "bye")
	settledAs(t, branches, ns, 2)

	require.NoError(t, the.Write(t.Context(), []byte(strings.Replace(branch, "silver", "gold", 1))))
	t.Cleanup(func() { require.NoError(t, the.Write(context.WithoutCancel(t.Context()), []byte(branch))) })
	var id string
	wait.For(t, "a Drift", 30*time.Second, func(ctx context.Context) error {
		list, err := as(t, hans).Resource(graphs.Drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range list.Items {
			if in, _, _ := unstructured.NestedString(d.Object, "spec", "child", "namespace"); in == office {
				cause, _, _ := unstructured.NestedString(d.Object, "spec", "cause")
				assert.Equal(t, "ResourceGraphDefinition branch revision 2, changed by "+anna, cause)
				id, _, _ = unstructured.NestedString(d.Object, "spec", "id")
				return nil
			}
		}
		return fmt.Errorf("none of %v", list.Items)
	})
	assert.Equal(t, "silver", child(t, configMaps, office)["data"].(map[string]any)["tier"])
	approval := fmt.Sprintf(`{"metadata":{"annotations":{"%s%s":"once"}}}`, v1alpha1.AnnotationKeyApprovePrefix, id)
	_, err = all.Patch(t.Context(), "db", types.MergePatchType, []byte(approval), metav1.PatchOptions{})
	require.NoError(t, err)
	data(t, office, "tier", "gold")
}
