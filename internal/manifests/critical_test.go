package manifests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestUncritical: a policy for all of a group does not have the webhook called for what nodes, the API server and Kausality itself
// write to go on (KR-13-55).
func TestUncritical(t *testing.T) {
	g, err := Guard(service(), scopesOf(t, kausality("all", func(s *v1alpha1.KausalitySpec) {
		s.Mode = v1alpha1.ModeEnforce
		s.Resources = []v1alpha1.GuardedResources{{Resources: []string{"*"}, APIGroups: []string{"storage.k8s.io", "networking.k8s.io", "resource.k8s.io",
			"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "apps"}}}
	})), nil, Masked{})
	require.NoError(t, err)
	conditions := matcher(g.Configuration.Webhooks[0].MatchConditions)
	for _, tc := range []struct {
		group, resource, namespace, name string
		called                           bool
	}{
		{"storage.k8s.io", "csinodes", "", "node-1", false},
		{"storage.k8s.io", "volumeattachments", "", "a", false},
		{"storage.k8s.io", "storageclasses", "", "fast", true},
		{"networking.k8s.io", "ipaddresses", "", "10.0.0.1", false},
		{"networking.k8s.io", "ingresses", "shop", "front", true},
		{"resource.k8s.io", "resourceslices", "", "gpu", false},
		{"resource.k8s.io", "resourceclaims", "shop", "gpu", true},
		{"flowcontrol.apiserver.k8s.io", "flowschemas", "", "system", false},
		{"internal.apiserver.k8s.io", "storageversions", "", "a", false},
		{"rbac.authorization.k8s.io", "clusterroles", "", "kausality-webhook-policies", false},
		{"rbac.authorization.k8s.io", "clusterroles", "", "editor", true},
		{"rbac.authorization.k8s.io", "roles", "shop", "kausality-webhook", true},
		{"apiextensions.k8s.io", "customresourcedefinitions", "", "drifts.kausality.io", false},
		{"apiextensions.k8s.io", "customresourcedefinitions", "", "databases.example.org", true},
		{"apps", "deployments", "shop", "kausality-webhook", true},
	} {
		kind := schema.GroupVersionKind{Group: tc.group, Version: "v1", Kind: "Any"}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": tc.group + "/v1", "kind": "Any", "metadata": map[string]any{"name": tc.name}}}
		a := admission.NewAttributesRecord(o, nil, kind, tc.namespace, tc.name, schema.GroupVersionResource{Group: tc.group, Version: "v1", Resource: tc.resource},
			"", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "hans"})
		got := conditions.Match(t.Context(), &admission.VersionedAttributes{Attributes: a, VersionedKind: kind, VersionedObject: o}, nil, nil)
		require.NoError(t, got.Error)
		assert.Equal(t, tc.called, got.Matches, "%s %s", tc.resource, tc.name)
	}
}
