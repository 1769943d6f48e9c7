package kro

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestWrites has what tracing relies on in what kro writes: the labels and the ApplySet of a child, that both identify the
// instance, and the field managers. A later release of kro that writes something else fails here first.
func TestWrites(t *testing.T) {
	ns := namespace(t, "writes")
	instance := shop(t, ns, "hello")
	log(t, "instance", instance)

	sum := sha256.Sum256([]byte("db." + ns + ".Shop.kro.run"))
	id := "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
	assert.Equal(t, id, instance.GetLabels()["applyset.kubernetes.io/id"])
	assert.Equal(t, "kro/v0.9.3", instance.GetAnnotations()["applyset.kubernetes.io/tooling"])
	assert.Equal(t, "ConfigMap,Service", instance.GetAnnotations()["applyset.kubernetes.io/contains-group-kinds"])
	assert.Equal(t, "shop", instance.GetLabels()["kro.run/resource-graph-definition-name"])
	assert.ElementsMatch(t, []string{"hans@example.com Update ", "kro.run/labeller Apply ", "kro.run/applyset-parent Apply ", "kro Update status"},
		managers(instance))
	assert.EqualValues(t, 1, instance.GetGeneration(), "kro does not write the spec of an instance")

	for _, resource := range []string{"config", "service"} {
		gvr := configMaps
		if resource == "service" {
			gvr = services
		}
		child, err := as(t, hans).Resource(gvr).Namespace(ns).Get(t.Context(), "db", metav1.GetOptions{})
		require.NoError(t, err)
		log(t, resource, child)
		labels := child.GetLabels()
		for key, want := range map[string]string{
			"instance-id": string(instance.GetUID()), "instance-name": "db", "instance-namespace": ns, "instance-group": "kro.run",
			"instance-version": "v1alpha1", "instance-kind": "Shop", "node-id": resource, "owned": "true", "kro-version": "v0.9.3",
			"resource-graph-definition-name": "", // the instance alone has it
		} {
			assert.Equal(t, want, labels["kro.run/"+key], key)
		}
		assert.Equal(t, id, labels["applyset.kubernetes.io/part-of"])
		assert.Empty(t, child.GetOwnerReferences())
		assert.Equal(t, []string{"kro.run/applyset Apply "}, managers(child))
	}
}

// managers of an object but Kausality: name, operation and subresource.
func managers(o *unstructured.Unstructured) []string {
	var out []string
	for _, e := range o.GetManagedFields() {
		if strings.HasPrefix(e.Manager, v1alpha1.ManagerPrefix) {
			continue
		}
		out = append(out, strings.Join([]string{e.Manager, string(e.Operation), e.Subresource}, " "))
	}
	return out
}

// log shows an object in the output of the test.
func log(t *testing.T, what string, o *unstructured.Unstructured) {
	t.Helper()
	raw, err := json.MarshalIndent(o, "", " ")
	require.NoError(t, err)
	t.Logf("%s: %s", what, raw)
}
