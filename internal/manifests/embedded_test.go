package manifests

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestRenderEmbedded: where the API server has Kausality within, no webhook is called, and the configuration has what is guarded all the same.
func TestRenderEmbedded(t *testing.T) {
	out, err := Render(Options{Embedded: true, Resources: []string{"*.example.org"}, DefaultMode: v1alpha1.ModeEnforce})
	require.NoError(t, err)
	assert.NotContains(t, string(out), "kind: ValidatingWebhookConfiguration")
	_, configuration, found := bytes.Cut(out, []byte("kind: MutatingWebhookConfiguration\n"))
	require.True(t, found)
	webhooks := strings.Count(string(configuration), "clientConfig:")
	assert.Equal(t, 3, webhooks)
	assert.Equal(t, webhooks, strings.Count(string(configuration), `expression: "false"`))
	assert.Equal(t, webhooks, strings.Count(string(configuration), "- example.org\n")-1, "scale has a rule of its own")
}

// TestEmbedded: the configuration in memory selects what the plugin is configured for, and what is critical never is.
func TestEmbedded(t *testing.T) {
	c, err := Embedded{
		Resources: []string{"configmaps", "*.example.org"}, DefaultMode: v1alpha1.ModeEnforce,
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
	}.Configuration()
	require.NoError(t, err)
	decides := c.Webhooks[0]
	assert.Equal(t, admissionregistrationv1.Fail, *decides.FailurePolicy)
	assert.Equal(t, "prod", decides.NamespaceSelector.MatchLabels["env"])
	assert.Contains(t, decides.NamespaceSelector.MatchExpressions[0].Values, "kube-system")
	for _, w := range c.Webhooks {
		assert.Equal(t, "false", w.MatchConditions[0].Expression, w.Name)
	}
	for name, tc := range map[string]struct {
		resource        schema.GroupResource
		namespace, name string
		want            bool
	}{
		"Slice":     {schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}, "", "x", true},
		"OwnRole":   {schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "", "kausality-webhook", true},
		"OtherRole": {schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, "", "other", false},
		"ConfigMap": {schema.GroupResource{Resource: "configmaps"}, "default", "kausality-x", false},
	} {
		assert.Equal(t, tc.want, Critical(tc.resource, tc.namespace, tc.name), name)
	}
	assert.Error(t, Embedded{Resources: []string{"nodes"}}.Check())
}
