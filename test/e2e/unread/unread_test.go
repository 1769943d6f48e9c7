package unread

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// crossplane is what Crossplane's chart lets it do (v2.3.3, crossplane:system:aggregate-to-crossplane), with what its RBAC manager adds
// for the story's kinds.
var crossplane = []rbacv1.PolicyRule{
	all("", "events", "secrets", "serviceaccounts", "services", "configmaps"),
	all("apiextensions.k8s.io", "customresourcedefinitions", "customresourcedefinitions/status"),
	all("apiextensions.crossplane.io", "*"), all("pkg.crossplane.io", "*"), all("protection.crossplane.io", "*"), all("ops.crossplane.io", "*"),
	all("apps", "deployments"), all("coordination.k8s.io", "leases"),
	all("admissionregistration.k8s.io", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
	all("example.org", "*"), all("cloud.example.org", "*"),
}

func all(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
}

var (
	crds           = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	configurations = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// configuration of the webhook, as the policy controller marks it where the ClusterRole is missing.
const configuration = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: kausality
  annotations: {kausality.io/crossplane-reads: none}
`

// TestPoliciesWithoutRole: CRDs without the ClusterRole kausality-crossplane fail no pipeline, and the condition of the composite reports what
// is missing (KR-09-08).
func TestPoliciesWithoutRole(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if base := os.Getenv("KAUSALITY_E2E_DIR"); base != "" {
		dir = base + "/" + t.Name()
	}
	e, err := story.Start(ctx, story.Options{Dir: dir, Out: os.Stdout, Kausality: os.Getenv("KAUSALITY_BINARY"), Function: true, WithoutObjects: true})
	t.Cleanup(e.Stop)
	require.NoError(t, err)
	admin, err := dynamic.NewForConfig(e.Config())
	require.NoError(t, err)
	restrict := func(rules ...rbacv1.PolicyRule) {
		_, err := e.ServiceAccountKubeconfig(ctx, "crossplane-system", "crossplane", append(rules, crossplane...)...)
		require.NoError(t, err)
	}
	mark := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationKeyCrossplaneReads, value)
		_, err := admin.Resource(crds).Patch(ctx, "kausalities.kausality.io", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	composites := admin.Resource(story.XDatabases).Namespace("default")
	create := func(name string) {
		_, err := composites.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": story.XDatabases.GroupVersion().String(), "kind": "XDatabase",
			"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{"size": int64(1)}}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	until := func(name, conditionType, status, message string) {
		t.Helper()
		wait.For(t, fmt.Sprintf("%s of %s to be %s with %q", conditionType, name, status, message), 3*time.Minute, func(ctx context.Context) error {
			o, err := composites.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			have := conditionOf(o, conditionType)
			if text, _ := have["message"].(string); have["status"] != status || !strings.Contains(text, message) {
				return fmt.Errorf("it is %v", have)
			}
			return nil
		})
	}

	restrict()
	mark("null")
	require.NoError(t, e.Compose(ctx, story.Composition{Tier: "bronze", Kausality: true}))
	create("without-role")
	until("without-role", v1alpha1.ConditionKausality, "True", "the ClusterRole kausality-crossplane is missing")
	until("without-role", "Synced", "True", "")
	until("without-role", "Ready", "True", "")

	// What it prevents: a mark that is not true fails the pipeline. The policy controller corrects it.
	mark(`"all"`)
	create("marked")
	until("marked", "Synced", "False", "kausality.io")
	require.NoError(t, e.Apply(ctx, []byte(configuration)))
	until("marked", v1alpha1.ConditionKausality, "True", "the ClusterRole kausality-crossplane is missing")
	until("marked", "Synced", "True", "")

	// With the right, and the report of it, the policies count.
	restrict(rbacv1.PolicyRule{APIGroups: []string{"kausality.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}})
	require.NoError(t, admin.Resource(configurations).Delete(ctx, "kausality", metav1.DeleteOptions{}))
	wait.For(t, "the policies to count", 3*time.Minute, func(ctx context.Context) error {
		o, err := composites.Get(ctx, "marked", metav1.GetOptions{})
		if err != nil {
			return err
		}
		have := conditionOf(o, v1alpha1.ConditionKausality)
		if text, _ := have["message"].(string); have["status"] != "True" || strings.Contains(text, "do not count") {
			return fmt.Errorf("the condition is %v", have)
		}
		return nil
	})
	until("marked", "Synced", "True", "")
}

// conditionOf a type; nil for none.
func conditionOf(o *unstructured.Unstructured, conditionType string) map[string]any {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // Crossplane wrote it
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == conditionType {
			return m
		}
	}
	return nil
}
