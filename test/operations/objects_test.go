package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// kinds: of the shop, and managed resources that no policy ever covers, as in most
// clusters.
var kinds = []controlplane.Kind{
	{Group: "shop.example.org", Kind: "App"},
	{Group: "shop.example.org", Kind: "Database", Categories: []string{"managed"}, Spec: controlplane.ManagedSpec},
	{Group: "elsewhere.example.org", Kind: "Cache", Categories: []string{"managed"}, Spec: controlplane.ManagedSpec},
}

var (
	apps        = schema.GroupVersionResource{Group: "shop.example.org", Version: "v1", Resource: "apps"}
	databases   = schema.GroupVersionResource{Group: "shop.example.org", Version: "v1", Resource: "databases"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	kausality   = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "kausalities"}
	hooks       = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	checks      = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}

	admissionPolicies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	bindingsOfRoles   = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	cloudDatabases    = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1alpha1", Resource: "databases"}

	accounts   = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	definition = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	bindings   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// policy in force for the length of a test, for a group with all its resources
// unless edited.
func policy(t *testing.T, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	if _, ok := spec["resources"]; !ok {
		spec["resources"] = []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"*"}}}
	}
	_, err := the.admin.Resource(kausality).Create(t.Context(), object("kausality.io/v1alpha1", "Kausality", "", name, spec), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := the.admin.Resource(kausality).Delete(ctx, name, forget); err != nil && !kerrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return awaitPolicy(t, name)
}

// awaitPolicy until the API server is configured as it requires.
func awaitPolicy(t *testing.T, name string) (k *unstructured.Unstructured) {
	t.Helper()
	wait.For(t, "policy "+name+" to be in force", wait.Patience, func(ctx context.Context) (err error) {
		k, err = inForce(ctx, name)
		return err
	})
	return k
}

// inForce is an error while a policy is not.
func inForce(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	k, err := the.admin.Resource(kausality).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = observed(k)
	}
	if err == nil {
		err = controlplane.ConditionTrue(k, "WebhookConfigured")
	}
	return k, err
}

func observed(k *unstructured.Unstructured) error {
	list, _, _ := unstructured.NestedSlice(k.Object, "status", "conditions")
	for _, c := range list {
		if g, _, _ := unstructured.NestedInt64(c.(map[string]any), "observedGeneration"); g == k.GetGeneration() {
			return nil
		}
	}
	return fmt.Errorf("the conditions are of an earlier generation: %v", list)
}

// namespace that exists afterwards.
func namespace(t *testing.T, name string) string {
	t.Helper()
	o := object("v1", "Namespace", "", name, map[string]any{})
	_, err := the.admin.Resource(namespaces).Create(t.Context(), o, metav1.CreateOptions{})
	if !kerrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	return name
}

// as a user with all rights.
func as(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(the.ConfigAs(user, "system:masters"))
	require.NoError(t, err)
	return c
}

const hans = "hans@example.com"

// app of hans, new, in a Namespace.
func app(t *testing.T, ns, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	return as(t, hans).Resource(apps).Namespace(ns).Create(t.Context(), object("shop.example.org/v1", "App", ns, name,
		map[string]any{"size": int64(1)}), metav1.CreateOptions{})
}

// guarded fails until what hans creates in a Namespace is traced.
func guarded(t *testing.T, ns string) {
	t.Helper()
	n := 0
	wait.For(t, "apps in "+ns+" to be guarded", wait.Patience, func(context.Context) error {
		n++
		o, err := app(t, ns, fmt.Sprintf("probe-%d", n))
		if err == nil && o.GetAnnotations()["kausality.io/trace"] == "" {
			err = fmt.Errorf("an app was created without a trace")
		}
		if kerrors.IsAlreadyExists(err) {
			err = fmt.Errorf("again: %w", err)
		}
		return err
	})
}

// merge patches an object.
func merge(t *testing.T, c dynamic.Interface, r schema.GroupVersionResource, ns, name string, patch map[string]any) error {
	t.Helper()
	raw, err := json.Marshal(patch)
	require.NoError(t, err)
	if ns == "" {
		_, err = c.Resource(r).Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
		return err
	}
	_, err = c.Resource(r).Namespace(ns).Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

func annotate(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// entries of the webhook configuration.
func entries(ctx context.Context) ([]map[string]any, error) {
	o, err := the.admin.Resource(hooks).Get(ctx, "kausality", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	list, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		out = append(out, e.(map[string]any))
	}
	return out, err
}

func entry(ctx context.Context, name string) (map[string]any, error) {
	all, err := entries(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(e map[string]any) bool { return e["name"] == name })
	if i < 0 {
		return nil, fmt.Errorf("the webhook configuration has no entry %s", name)
	}
	return all[i], nil
}
