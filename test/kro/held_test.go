package kro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
	"github.com/kausality-io/function-kausality/test/rights"
)

// TestHeld plays the life of an instance: it is created and traced to its user, settles, and follows its user's change. An edit of the
// graph is held, for each of its children, until it is approved (KR-18-01, KR-18-02, KR-18-03).
func TestHeld(t *testing.T) {
	ns := namespace(t, "held")
	shop(t, ns, "hello")
	settled(t, ns, 1)
	assert.Equal(t, []string{"Shop hans@example.com", "ConfigMap system:serviceaccount:kro-system:kro"}, hops(t, child(t, configMaps, ns)))
	assert.Equal(t, []string{"Shop hans@example.com", "Service system:serviceaccount:kro-system:kro"}, hops(t, child(t, services, ns)))

	// The user's change passes, and is traced.
	patch(t, hans, shops, ns, "db", `{"spec":{"message":"bye"}}`)
	data(t, ns, "message", "bye")
	settled(t, ns, 2)
	assert.Equal(t, []string{"Shop hans@example.com", "ConfigMap system:serviceaccount:kro-system:kro"}, hops(t, child(t, configMaps, ns)))

	// An edit of the graph is held: a field, and a node that is dropped.
	edit(t, "gold", true)
	t.Cleanup(func() { edit(t, "silver", false) })
	update := drift(t, ns, "ConfigMap", "Update")
	assert.Equal(t, "silver", child(t, configMaps, ns)["data"].(map[string]any)["tier"])
	graphCause(t, update)

	// An approval on the instance lets exactly this change pass; kro applies it again by itself.
	id, _, _ := unstructured.NestedString(update.Object, "spec", "id")
	patch(t, hans, shops, ns, "db", fmt.Sprintf(`{"metadata":{"annotations":{"kausality.io/approve-%s":"once"}}}`, id))
	data(t, ns, "tier", "gold")
	hop := trail(t, child(t, configMaps, ns))
	assert.True(t, hop[len(hop)-1].Unrequested)
	if causes := hop[len(hop)-1].Causes; assert.Len(t, causes, 1) {
		assert.Equal(t, v1alpha1.CauseGraph, causes[0].Kind)
		assert.Equal(t, anna, causes[0].Author)
	}

	// The node is pruned once all applies succeed; that is held, too.
	removal := drift(t, ns, "Service", "Delete")
	graphCause(t, removal)
	child(t, services, ns)
	id, _, _ = unstructured.NestedString(removal.Object, "spec", "id")
	patch(t, hans, shops, ns, "db", fmt.Sprintf(`{"metadata":{"annotations":{"kausality.io/approve-%s":"once"}}}`, id))
	wait.For(t, "the Service to be gone", 30*time.Second, func(ctx context.Context) error {
		_, err := as(t, hans).Resource(services).Namespace(ns).Get(ctx, "db", metav1.GetOptions{})
		if kerrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it exists: %w", err)
	})

	// An instance that is deleted takes its children with it.
	require.NoError(t, as(t, hans).Resource(shops).Namespace(ns).Delete(t.Context(), "db", metav1.DeleteOptions{}))
	wait.For(t, "the instance and its ConfigMap to be gone", 30*time.Second, func(ctx context.Context) error {
		for _, gvr := range []schema.GroupVersionResource{shops, configMaps} {
			if _, err := as(t, hans).Resource(gvr).Namespace(ns).Get(ctx, "db", metav1.GetOptions{}); !kerrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", gvr.Resource, errors.Join(err, errExists))
			}
		}
		return nil
	})
	rights.Show(t, the.AuditLog())
}

// graphCause asserts that the cause of a Drift is the newest revision of the graph, by anna (KR-18-05).
func graphCause(t *testing.T, d *unstructured.Unstructured) {
	t.Helper()
	o, err := as(t, anna).Resource(graphs.Graphs).Get(t.Context(), "shop", metav1.GetOptions{})
	require.NoError(t, err)
	n, _, _ := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision")
	text, _, _ := unstructured.NestedString(d.Object, "spec", "cause")
	assert.Equal(t, fmt.Sprintf("ResourceGraphDefinition shop revision %d, changed by %s", n, anna), text)
	causes, _, _ := unstructured.NestedSlice(d.Object, "spec", "causes")
	assert.Equal(t, []any{map[string]any{"kind": "GraphRevision", "name": fmt.Sprintf("shop-r%05d", n), "author": anna}}, causes)
}

var errExists = errors.New("it exists")

// TestLabels: who changes the labels by which a child names its instance does not change its parent (KR-18-04).
func TestLabels(t *testing.T) {
	ns := namespace(t, "labels")
	shop(t, ns, "hello")
	settled(t, ns, 1)
	patch(t, hans, configMaps, ns, "db", `{"metadata":{"labels":{"kro.run/instance-id":null,"app":"shop"}}}`)
	labels, _, _ := unstructured.NestedStringMap(child(t, configMaps, ns), "metadata", "labels")
	assert.NotEmpty(t, labels["kro.run/instance-id"])
	assert.Equal(t, "shop", labels["app"])

	// Nor does an owner take it away.
	patch(t, hans, configMaps, ns, "db", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x","controller":true}]}}`)
	owners, _, _ := unstructured.NestedSlice(child(t, configMaps, ns), "metadata", "ownerReferences")
	assert.Empty(t, owners)

	// The labels of another object do not make it a child, whether they name the instance or nothing.
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"}}}
	o.SetName("adopted")
	_, err := as(t, hans).Resource(configMaps).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	require.NoError(t, err)
	patch(t, hans, configMaps, ns, "adopted", string(raw))
	made, err := as(t, hans).Resource(configMaps).Namespace(ns).Get(t.Context(), "adopted", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, made.GetLabels(), "kro.run/instance-id")
	assert.Equal(t, "shop", made.GetLabels()["app"])

	o.SetName("forged")
	labels["kro.run/instance-id"] = "00000000-0000-0000-0000-000000000000"
	o.SetLabels(labels)
	_, err = as(t, hans).Resource(configMaps).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	patch(t, hans, configMaps, ns, "forged", `{"data":{"a":"c"}}`)
	made, err = as(t, hans).Resource(configMaps).Namespace(ns).Get(t.Context(), "forged", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"ConfigMap hans@example.com"}, hops(t, made.Object))
}

// edit the graph of most tests as anna: the tier of the ConfigMap, none where it is empty, and whether the Service is dropped.
func edit(t *testing.T, tier string, drop bool) {
	t.Helper()
	text := strings.Replace(graph, "tier: silver", "tier: "+tier, 1)
	if tier == "" {
		text = strings.Replace(graph, "tier: silver", "", 1)
	}
	if drop {
		text, _, _ = strings.Cut(text, "  - id: service")
	}
	require.NoError(t, the.Write(context.WithoutCancel(t.Context()), []byte(text))) // it is called after the test
}

// drift returns the open Drift of a kind of child in a namespace, about an operation.
func drift(t *testing.T, ns, kind, operation string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	wait.For(t, "a Drift of "+operation+" of "+kind, 30*time.Second, func(ctx context.Context) error {
		list, err := as(t, hans).Resource(graphs.Drifts).Namespace(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			spec, _, _ := unstructured.NestedMap(o.Object, "spec")
			of, _ := spec["child"].(map[string]any)
			if o.GetNamespace() == ns && of["kind"] == kind && strings.EqualFold(fmt.Sprint(spec["operation"]), operation) {
				found = &o
				return nil
			}
		}
		o, err := as(t, hans).Resource(shops).Namespace(ns).Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return fmt.Errorf("none of %v; the instance: %v", list.Items, o.Object["status"])
	})
	return found
}

// settled waits until the instance settled at a generation.
func settled(t *testing.T, ns string, generation int64) {
	t.Helper()
	settledAs(t, shops, ns, generation)
}

// settledAs waits until the instance of a kind settled at a generation.
func settledAs(t *testing.T, kind schema.GroupVersionResource, ns string, generation int64) {
	t.Helper()
	wait.For(t, "the instance to settle", 30*time.Second, func(ctx context.Context) error {
		o, err := as(t, hans).Resource(kind).Namespace(ns).Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if at := o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration]; at != fmt.Sprint(generation) {
			return fmt.Errorf("it settled at %q: %v", at, o.Object)
		}
		return nil
	})
}

// child returns the content of a child of the instance.
func child(t *testing.T, gvr schema.GroupVersionResource, ns string) map[string]any {
	t.Helper()
	o, err := as(t, hans).Resource(gvr).Namespace(ns).Get(t.Context(), "db", metav1.GetOptions{})
	require.NoError(t, err)
	return o.Object
}

// data waits for a value in the ConfigMap.
func data(t *testing.T, ns, key, want string) {
	t.Helper()
	wait.For(t, "the ConfigMap to be written", 30*time.Second, func(ctx context.Context) error {
		o, err := as(t, hans).Resource(configMaps).Namespace(ns).Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is, _, _ := unstructured.NestedString(o.Object, "data", key); is != want {
			return fmt.Errorf("%s is %q", key, is)
		}
		return nil
	})
}

func patch(t *testing.T, user string, gvr schema.GroupVersionResource, ns, name, text string) {
	t.Helper()
	_, err := as(t, user).Resource(gvr).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	require.NoError(t, err)
}

// trail is the trace of an object.
func trail(t *testing.T, o map[string]any) (out []v1alpha1.Hop) {
	t.Helper()
	value := (&unstructured.Unstructured{Object: o}).GetAnnotations()[v1alpha1.AnnotationKeyTrace]
	require.NoError(t, decode(value, &out), value)
	return out
}

// hops are the kinds and users of a trace.
func hops(t *testing.T, o map[string]any) []string {
	t.Helper()
	trace := trail(t, o)
	return slices.Collect(func(yield func(string) bool) {
		for _, h := range trace {
			if !yield(strings.TrimSpace(h.Kind + " " + h.User)) {
				return
			}
		}
	})
}
