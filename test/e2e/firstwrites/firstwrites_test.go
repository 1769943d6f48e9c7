package firstwrites

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

const (
	modernObjects = "kubernetes.m.crossplane.io/v1alpha1"
	legacyObjects = "kubernetes.crossplane.io/v1alpha2"
)

// objectForm is a form in which a user writes an Object of provider-kubernetes.
type objectForm struct {
	apiVersion string
	spec       map[string]any
}

// patchesFrom a ConfigMap.
func patchesFrom() []any {
	return []any{map[string]any{"toFieldPath": "data.ca", "patchesFrom": map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "namespace": "default", "fieldPath": "metadata.name"}}}
}

// dependsOn a ConfigMap.
func dependsOn() []any {
	return []any{map[string]any{"dependsOn": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "namespace": "default"}}}
}

// connectionDetails of a ConfigMap.
func connectionDetails(name string) []any {
	return []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": name,
		"fieldPath": "data.size", "toConnectionSecretKey": "size"}}
}

// objectForms of both API groups: what they leave open, a typed client fills in on its first write.
var objectForms = map[string]objectForm{
	"plain":          {modernObjects, map[string]any{}},
	"readiness":      {modernObjects, map[string]any{"readiness": map[string]any{"policy": "DeriveFromObject"}}},
	"no-policy":      {modernObjects, map[string]any{"readiness": map[string]any{}}},
	"watch":          {modernObjects, map[string]any{"watch": true}},
	"patches":        {modernObjects, map[string]any{"references": patchesFrom()}},
	"patches-ready":  {modernObjects, map[string]any{"references": patchesFrom(), "readiness": map[string]any{"policy": "SuccessfulCreate"}}},
	"config":         {modernObjects, map[string]any{"providerConfigRef": map[string]any{"kind": "ProviderConfig", "name": "default"}}},
	"orphaned":       {modernObjects, map[string]any{"managementPolicies": []any{"Observe", "Create", "Update", "LateInitialize"}}},
	"legacy":         {legacyObjects, map[string]any{}},
	"legacy-ready":   {legacyObjects, map[string]any{"readiness": map[string]any{"policy": "DeriveFromObject"}}},
	"legacy-orphan":  {legacyObjects, map[string]any{"deletionPolicy": "Orphan"}},
	"legacy-watch":   {legacyObjects, map[string]any{"watch": true}},
	"legacy-patches": {legacyObjects, map[string]any{"references": patchesFrom()}},
	"depends":        {modernObjects, map[string]any{"references": dependsOn()}},
	"named-config":   {modernObjects, map[string]any{"providerConfigRef": map[string]any{"kind": "ClusterProviderConfig", "name": "default"}}},
	"all-true":       {modernObjects, map[string]any{"readiness": map[string]any{"policy": "AllTrue"}}},
	"cel":            {modernObjects, map[string]any{"readiness": map[string]any{"policy": "DeriveFromCelQuery", "celQuery": "object.data.size == '1'"}}},
	"secret": {modernObjects, map[string]any{"writeConnectionSecretToRef": map[string]any{"name": "secret"},
		"connectionDetails": connectionDetails("secret")}},
	"all-policies":   {modernObjects, map[string]any{"managementPolicies": []any{"*"}}},
	"watch-patches":  {modernObjects, map[string]any{"watch": true, "references": patchesFrom()}},
	"legacy-depends": {legacyObjects, map[string]any{"references": dependsOn()}},
	"legacy-config":  {legacyObjects, map[string]any{"providerConfigRef": map[string]any{"name": "default"}}},
	"legacy-delete":  {legacyObjects, map[string]any{"deletionPolicy": "Delete", "managementPolicies": []any{"*"}}},
	"legacy-secret": {legacyObjects, map[string]any{"writeConnectionSecretToRef": map[string]any{"name": "legacy-secret", "namespace": "default"},
		"connectionDetails": connectionDetails("legacy-secret")}},
	"legacy-patches-ready": {legacyObjects, map[string]any{"references": patchesFrom(), "watch": true,
		"readiness": map[string]any{"policy": "SuccessfulCreate"}}},
}

// TestFirstWrites: whatever a user leaves open in an Object, the provider's first writes do not replace the
// user in its trace, and neither do those that follow until its ConfigMap is observed (KR-07-08).
func TestFirstWrites(t *testing.T) {
	for _, part := range []string{parts.ProviderKubernetes, parts.ProviderKubernetes12} {
		t.Run(part, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			e, err := story.Start(ctx, story.Options{
				Dir: t.TempDir(), Out: t.Output(), Webhook: true, ProviderKubernetes: part,
				Resources: []string{"objects.kubernetes.crossplane.io"},
			})
			t.Cleanup(e.Stop)
			require.NoError(t, err)
			require.NoError(t, e.Apply(ctx, []byte(story.LegacyProviderConfig)))
			require.NoError(t, e.Apply(ctx, []byte(ownProvider)))
			firstWrites(ctx, t, e)
		})
	}
}

const ownProvider = `
apiVersion: kubernetes.m.crossplane.io/v1alpha1
kind: ProviderConfig
metadata: {namespace: default, name: default}
spec:
  credentials:
    source: Secret
    secretRef: {namespace: crossplane-system, name: provider-kubernetes, key: kubeconfig}
`

// firstWrites creates an Object of each form, and compares its trace once its ConfigMap is observed.
func firstWrites(ctx context.Context, t *testing.T, e *story.Env) {
	t.Helper()
	hans, err := dynamic.NewForConfig(e.ConfigAsMaster(story.Hans))
	require.NoError(t, err)
	objects := func(apiVersion string) dynamic.ResourceInterface {
		group, err := schema.ParseGroupVersion(apiVersion)
		require.NoError(t, err)
		resource := hans.Resource(group.WithResource("objects"))
		if apiVersion == legacyObjects {
			return resource
		}
		return resource.Namespace("default")
	}
	for name, form := range objectForms {
		spec := maps.Clone(form.spec)
		spec["forProvider"] = map[string]any{"manifest": map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"namespace": "default", "name": name}, "data": map[string]any{"size": "1"}}}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": form.apiVersion, "kind": "Object",
			"metadata": map[string]any{"name": name}, "spec": spec}}
		_, err := objects(form.apiVersion).Create(ctx, o, metav1.CreateOptions{})
		require.NoError(t, err, name)
	}
	for name, form := range objectForms {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, controlplane.Eventually(ctx, "the ConfigMap to be observed", time.Minute, func(ctx context.Context) error {
				o, err := objects(form.apiVersion).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				return observedBy(o, story.Hans)
			}))
		})
	}
}

// observedBy returns nil for an Object whose ConfigMap its provider has observed, and whose trace has one hop, of a user.
func observedBy(o *unstructured.Unstructured, user string) error {
	var hops []v1alpha1.Hop
	if err := json.Unmarshal([]byte(o.GetAnnotations()[v1alpha1.AnnotationKeyTrace]), &hops); err != nil {
		return err
	}
	if len(hops) != 1 || hops[0].User != user {
		return fmt.Errorf("its trace is %+v", hops)
	}
	if _, found, err := unstructured.NestedString(o.Object, "status", "atProvider", "manifest", "metadata", "uid"); err != nil || !found {
		return fmt.Errorf("its status is %v", o.Object["status"])
	}
	return nil
}
