package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/channel/slack"
	"github.com/kausality-io/function-kausality/test/controlplane"
)

// slackValues are the least that Slack needs.
var slackValues = []string{"slack.enabled=true", "slack.tokensSecretName=tokens", "slack.config.channel=C0123456789", "slack.config.workspace=T0123456789",
	"slack.config.users.U0123456789.user=hans@example.com"}

// TestSlackRoles covers KR-17-10: the chart grants what kausality notify slack --print-roles prints for the same configuration, and no more.
func TestSlackRoles(t *testing.T) {
	for name, config := range map[string]string{
		"Users": `{"users":{"U0HANS00":{"user":"hans","groups":["b","a"]},"U0ANNA00":{"user":"anna","groups":["b"]},"U0EVE000":{"user":"hans"}}}`,
		"Email": `{"email":{"domains":["example.com"],"groups":["staff"]},"impersonateAnyone":true}`,
		"Constrained": `{"users":{"U0HANS00":{"user":"hans","groups":["a"]}},
			"constrainedImpersonation":{"resources":["xb.example.org","xa.example.org","xc.example.com"]}}`,
		"ConstrainedByEmail": `{"email":{"prefix":"oidc:","domains":["example.com"]},"constrainedImpersonation":{"resources":["xb.example.org"]},
			"timeZone":"Europe/Berlin","reminders":{"after":"72h"},"page":{"url":"https://example.com/{id}"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config = `{"channel":"C0123456789","workspace":"T0123456789",` + config[1:]
			out, err := run(t, "template", "kausality", dir, "--namespace", "kausality-system", "--set", "slack.enabled=true,slack.tokensSecretName=tokens",
				"--set-json", "slack.config="+config)
			require.NoError(t, err)
			rendered, err := controlplane.Decode([]byte(out))
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(configOf(t, rendered, slack.Component)), 0o600))
			c, err := slack.Load(file)
			require.NoError(t, err)
			var printed bytes.Buffer
			require.NoError(t, slack.WriteRoles(&printed, c, "kausality-system"))
			want, err := controlplane.Decode(printed.Bytes())
			require.NoError(t, err)
			assert.Equal(t, granted(t, want, slack.Component), granted(t, rendered, slack.Component))
		})
	}
}

// configOf a component, as the chart renders it.
func configOf(t *testing.T, objects []*unstructured.Unstructured, name string) string {
	t.Helper()
	m := corev1.ConfigMap{}
	into(t, find(t, objects, "ConfigMap", name), &m)
	return m.Data["config.yaml"]
}

// find an object.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func into(t *testing.T, o *unstructured.Unstructured, out any) {
	t.Helper()
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out))
}

// granted lists each verb on each resource, and to whom, of Slack.
func granted(t *testing.T, objects []*unstructured.Unstructured, name string) (out []string) {
	t.Helper()
	cluster, namespaced := rbacv1.ClusterRole{}, rbacv1.Role{}
	into(t, find(t, objects, "ClusterRole", name), &cluster)
	into(t, find(t, objects, "Role", name), &namespaced)
	out = append(listedRules("ClusterRole", cluster.Rules), listedRules("Role", namespaced.Rules)...)
	for _, kind := range []string{"ClusterRoleBinding", "RoleBinding"} {
		binding := find(t, objects, kind, name).Object
		raw, err := json.Marshal(map[string]any{"kind": kind, "to": binding["roleRef"], "subjects": binding["subjects"]})
		require.NoError(t, err)
		out = append(out, string(raw))
	}
	return out
}

// listedRules lists each verb on each resource, in order.
func listedRules(kind string, rules []rbacv1.PolicyRule) (out []string) {
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, name := range names {
					for _, verb := range r.Verbs {
						out = append(out, fmt.Sprintf("%s: %s %s/%s %s", kind, verb, group, resource, name))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}
