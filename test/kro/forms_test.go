package kro

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// farm is a graph with a collection, a node that is included by choice, one that is waited for, and an object that it only reads.
const farm = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: farm}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Farm
    spec: {fields: "[]string", barn: boolean}
  resources:
  - id: shared
    externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
  - id: fields
    forEach: [{field: "${schema.spec.fields}"}]
    readyWhen: ["${each.data.region != ''}"]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-${field}"}
      data: {region: "${shared.data.region}"}
  - id: barn
    includeWhen: ["${schema.spec.barn}"]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-barn"}
      data: {tier: silver}
`

// TestForms: children of a collection, and those that are included by choice, come and go with the user's changes; an object that the
// graph reads is no child, and what follows from its change is held (KR-18-01, KR-18-03).
func TestForms(t *testing.T) {
	ns := namespace(t, "forms")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"region": "north"}}}
	o.SetName("shared")
	_, err := as(t, hans).Resource(configMaps).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	o = &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Farm",
		"spec": map[string]any{"fields": []any{"a", "b"}, "barn": true}}}
	o.SetName("db")
	_, err = as(t, hans).Resource(farms).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	has(t, ns, "db-a north", "db-b north", "db-barn ", "shared north")
	settledAs(t, farms, ns, 1)
	for _, name := range []string{"db-a", "db-barn"} {
		made, err := as(t, hans).Resource(configMaps).Namespace(ns).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"Farm hans@example.com", "ConfigMap system:serviceaccount:kro-system:kro"}, hops(t, made.Object))
	}

	// The user's change of the lists creates and deletes children.
	patch(t, hans, farms, ns, "db", `{"spec":{"fields":["b","c"],"barn":false}}`)
	has(t, ns, "db-b north", "db-c north", "shared north")
	settledAs(t, farms, ns, 2)

	// What the graph reads is no child: hans may change it. What follows from that is no intent on the instance, and no edit of the
	// graph, either (KR-18-05).
	patch(t, hans, configMaps, ns, "shared", `{"data":{"region":"south"}}`)
	cause, _, _ := unstructured.NestedString(drift(t, ns, "ConfigMap", "Update").Object, "spec", "cause")
	assert.Equal(t, "controller "+controlplane.KroUser, cause)
	has(t, ns, "db-b north", "db-c north", "shared south")
}

// has waits until these ConfigMaps are in a namespace, by name and region.
func has(t *testing.T, ns string, want ...string) {
	t.Helper()
	wait.For(t, "the ConfigMaps of "+ns, 30*time.Second, func(ctx context.Context) error {
		list, err := as(t, hans).Resource(configMaps).Namespace(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var is []string
		for _, o := range list.Items {
			region, _, _ := unstructured.NestedString(o.Object, "data", "region")
			is = append(is, strings.Join([]string{o.GetName(), region}, " "))
		}
		is = slices.DeleteFunc(is, func(s string) bool { return strings.HasPrefix(s, "kube-root-ca.crt") })
		if slices.Sort(is); !slices.Equal(is, want) {
			return fmt.Errorf("they are %v", is)
		}
		return nil
	})
}
