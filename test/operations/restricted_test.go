package operations

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestRestrictedPods: whatever the values, the API server admits the Pods of the chart to a restricted Namespace
// (KR-13-42).
func TestRestrictedPods(t *testing.T) {
	ns := the.Namespace(t, "restricted")
	require.NoError(t, the.Restrict(t.Context(), ns))
	privileged := podOf(ns, map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x"}}})
	if _, err := admitted(t.Context(), privileged); !kerrors.IsForbidden(err) {
		t.Fatalf("the Namespace is not restricted: %v", err)
	}
	for name, args := range map[string][]string{
		"Defaults": nil,
		"Everything": {"--set", "notifier.enabled=true,notifier.tlsSecretName=tls,webhook.clientCASecretName=clients," +
			"metrics.dashboards.enabled=true,networkPolicy.enabled=true,driftWebhooks.urls={https://a.example.org/x}"},
		"CertManager": {"--set", "certificates.source=cert-manager"},
		"Endpoints":   {"--set", "driftWebhooks.urls={https://a.example.org/x},driftWebhooks.caSecretName=ca,metrics.enabled=false"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := the.Render(t.Context(), args...)
			require.NoError(t, err)
			var kinds []string
			for _, o := range objects {
				spec, isWorkload, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
				if !isWorkload {
					continue
				}
				kinds = append(kinds, o.GetKind())
				account(t, ns, spec["serviceAccountName"].(string))
				pod, err := admitted(t.Context(), podOf(ns, spec))
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
					continue
				}
				readsOnly(t, o.GetName(), pod, o.GetName() != "kausality-notifier")
			}
			if !slices.Contains(kinds, "Job") || len(kinds) < 4 {
				t.Errorf("only %v have Pods", kinds)
			}
		})
	}
}

// readsOnly: no container of an admitted Pod writes its file system, and a token is mounted where it is used alone.
func readsOnly(t *testing.T, name string, pod *unstructured.Unstructured, uses bool) {
	t.Helper()
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	tokens := false
	for _, c := range containers {
		if yes, _, _ := unstructured.NestedBool(c.(map[string]any), "securityContext", "readOnlyRootFilesystem"); !yes {
			t.Errorf("%s writes its file system", name)
		}
		mounts, _, _ := unstructured.NestedSlice(c.(map[string]any), "volumeMounts")
		for _, m := range mounts {
			tokens = tokens || m.(map[string]any)["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
		}
	}
	if tokens != uses {
		t.Errorf("%s has a token: %t, uses one: %t", name, tokens, uses)
	}
}

// TestRestrictedFunction: a Pod of the function is admitted, too, with what docs/function.md has Crossplane start it with
// (KR-13-42).
func TestRestrictedFunction(t *testing.T) {
	ns := the.Namespace(t, "restricted-function")
	require.NoError(t, the.Restrict(t.Context(), ns))
	raw, err := os.ReadFile(filepath.Join(the.Root, "docs", "function.md"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(raw), "kind: DeploymentRuntimeConfig\n")
	text, _, found := strings.Cut(rest, "```")
	require.True(t, found, "docs/function.md has no DeploymentRuntimeConfig")
	var config struct {
		Spec struct {
			DeploymentTemplate struct {
				Spec struct {
					Template struct{ Spec map[string]any }
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &config))
	spec := config.Spec.DeploymentTemplate.Spec.Template.Spec
	containers, _ := spec["containers"].([]any)
	require.Len(t, containers, 1)
	container := containers[0].(map[string]any)
	require.Equal(t, "package-runtime", container["name"])
	container["image"] = "function" // Crossplane fills it in, as it does the ServiceAccount
	pod, err := admitted(t.Context(), podOf(ns, spec))
	require.NoError(t, err)
	readsOnly(t, "the function", pod, false)
}

func podOf(ns string, spec map[string]any) *unstructured.Unstructured {
	return site.Object("v1", "Pod", ns, "a-pod", spec)
}

// admitted Pod, by dry run.
func admitted(ctx context.Context, pod *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return the.Admin.Resource(site.Pods).Namespace(pod.GetNamespace()).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// account that Pods name, as the chart has it.
func account(t *testing.T, ns, name string) {
	t.Helper()
	o := site.Object("v1", "ServiceAccount", ns, name, map[string]any{})
	delete(o.Object, "spec")
	o.Object["automountServiceAccountToken"] = false
	_, err := the.Admin.Resource(site.Accounts).Namespace(ns).Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: "admin", Force: true})
	require.NoError(t, err)
}
