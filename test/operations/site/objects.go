package site

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// Resources of the objects.
var (
	Apps        = schema.GroupVersionResource{Group: "shop.example.org", Version: "v1", Resource: "apps"}
	Databases   = schema.GroupVersionResource{Group: "shop.example.org", Version: "v1", Resource: "databases"}
	Namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	Secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	Kausality   = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "kausalities"}
	Hooks       = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
	Roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	Deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	Checks      = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}

	AdmissionPolicies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	BindingsOfRoles   = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	CloudDatabases    = schema.GroupVersionResource{Group: "cloud.example.org", Version: "v1alpha1", Resource: "databases"}

	Accounts   = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	Pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	Definition = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	Leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	Drifts     = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "drifts"}
	Bindings   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// Policy in force for the length of a test, for a group with all its resources
// unless edited.
func (l *Site) Policy(t *testing.T, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	if _, ok := spec["resources"]; !ok {
		spec["resources"] = []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"*"}}}
	}
	_, err := l.Admin.Resource(Kausality).Create(t.Context(), Object("kausality.io/v1alpha1", "Kausality", "", name, spec), metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		if err := l.Admin.Resource(Kausality).Delete(ctx, name, Forget); err != nil && !kerrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return l.AwaitPolicy(t, name)
}

// AwaitPolicy until the API server is configured as it requires.
func (l *Site) AwaitPolicy(t *testing.T, name string) (k *unstructured.Unstructured) {
	t.Helper()
	wait.For(t, "policy "+name+" to be in force", wait.Patience, func(ctx context.Context) (err error) {
		k, err = l.InForce(ctx, name)
		return err
	})
	return k
}

// InForce is an error while a policy is not.
func (l *Site) InForce(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	k, err := l.Admin.Resource(Kausality).Get(ctx, name, metav1.GetOptions{})
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

// Namespace that exists afterwards.
func (l *Site) Namespace(t *testing.T, name string) string {
	t.Helper()
	o := Object("v1", "Namespace", "", name, map[string]any{})
	_, err := l.Admin.Resource(Namespaces).Create(t.Context(), o, metav1.CreateOptions{})
	if !kerrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	return name
}

// Enforce in a Namespace by its annotation, until the test ends.
func (l *Site) Enforce(t *testing.T, ns string) {
	t.Helper()
	require.NoError(t, Merge(t, l.Admin, Namespaces, "", ns, Annotate("kausality.io/mode", "enforce")))
	t.Cleanup(func() { require.NoError(t, Merge(t, l.Admin, Namespaces, "", ns, Annotate("kausality.io/mode", nil))) })
}

// As a user with all rights.
func (l *Site) As(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(l.ConfigAs(user, "system:masters"))
	require.NoError(t, err)
	return c
}

// Hans is the user who wants things.
const Hans = "hans@example.com"

// App of hans, new, in a Namespace.
func (l *Site) App(t *testing.T, ns, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	return l.As(t, Hans).Resource(Apps).Namespace(ns).Create(t.Context(), Object("shop.example.org/v1", "App", ns, name,
		map[string]any{"size": int64(1)}), metav1.CreateOptions{})
}

// Guarded fails until what hans creates in a Namespace is traced.
func (l *Site) Guarded(t *testing.T, ns string) {
	t.Helper()
	n := 0
	wait.For(t, "apps in "+ns+" to be guarded", wait.Patience, func(context.Context) error {
		n++
		o, err := l.App(t, ns, fmt.Sprintf("probe-%d", n))
		if err == nil && o.GetAnnotations()["kausality.io/trace"] == "" {
			err = fmt.Errorf("an app was created without a trace")
		}
		if kerrors.IsAlreadyExists(err) {
			err = fmt.Errorf("again: %w", err)
		}
		return err
	})
}

// Merge a patch into an object, also as a test ends.
func Merge(t *testing.T, c dynamic.Interface, r schema.GroupVersionResource, ns, name string, patch map[string]any) error {
	t.Helper()
	raw, err := json.Marshal(patch)
	require.NoError(t, err)
	if ns == "" {
		_, err = c.Resource(r).Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
		return err
	}
	_, err = c.Resource(r).Namespace(ns).Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, raw, metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}

// Annotate is a patch of an annotation.
func Annotate(key string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
}

// Entries of the webhook configuration.
func (l *Site) Entries(ctx context.Context) ([]map[string]any, error) {
	o, err := l.Admin.Resource(Hooks).Get(ctx, "kausality", metav1.GetOptions{})
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

// Entry of the webhook configuration.
func (l *Site) Entry(ctx context.Context, name string) (map[string]any, error) {
	all, err := l.Entries(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(e map[string]any) bool { return e["name"] == name })
	if i < 0 {
		return nil, fmt.Errorf("the webhook configuration has no entry %s", name)
	}
	return all[i], nil
}

// Stray is an app whose parent does not exist: refused under enforce.
func (l *Site) Stray(t *testing.T, ns, name string) error {
	t.Helper()
	yes := true
	o := Object("shop.example.org/v1", "App", ns, name, map[string]any{"size": int64(1)})
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "shop.example.org/v1", Kind: "App", Name: "nobody", UID: "no-such-uid", Controller: &yes}})
	_, err := l.As(t, Hans).Resource(Apps).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
	return err
}

// StatusOf a policy: a condition, and what happens during an outage.
func (l *Site) StatusOf(t *testing.T, name, condition, outage string) {
	t.Helper()
	wait.For(t, "the status of the policy", wait.Patience, func(ctx context.Context) error {
		k, err := l.Admin.Resource(Kausality).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		during, _, _ := unstructured.NestedString(k.Object, "status", "duringOutage")
		have := ""
		list, _, _ := unstructured.NestedSlice(k.Object, "status", "conditions")
		for _, e := range list {
			c, _ := e.(map[string]any)
			if c["type"] == strings.Fields(condition)[0] {
				have = fmt.Sprintf("%s %s", c["type"], c["status"])
			}
		}
		if have != condition || during != outage {
			return fmt.Errorf("it has %q and %q", have, during)
		}
		return nil
	})
}

// ExternalDrift of an object that was detected and not resolved: its id.
func (l *Site) ExternalDrift(t *testing.T, child string) (id string) {
	t.Helper()
	wait.For(t, "the Drift of "+child, wait.Patience, func(ctx context.Context) error {
		list, err := l.Admin.Resource(Drifts).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			name, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "child", "name")
			relation, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "relation")
			if id, _, _ = unstructured.NestedString(list.Items[i].Object, "spec", "id"); name == child && relation == "External" {
				return nil
			}
		}
		return fmt.Errorf("there is none of %d", len(list.Items))
	})
	return id
}
