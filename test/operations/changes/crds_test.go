package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/rights"
)

const allowDeletion = "kausality.io/allow-deletion"

// TestCRDsOfMaskedObjects: a CRD with masked objects, and the Provider that installed it, are deleted by no client, the
// garbage collector included, before an approver allows it, also after their policy was deleted; then the garbage collector
// goes on (KR-13-29, KR-13-57).
func TestCRDsOfMaskedObjects(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "crds")
	providerWithCRD(t)
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	gadgets := schema.GroupVersionResource{Group: "shop.example.org", Version: "v1", Resource: "gadgets"}
	o := site.Object("shop.example.org/v1", "Gadget", ns, "one", map[string]any{"forProvider": map[string]any{"size": int64(1)}, "managementPolicies": []any{"*"}})
	wait.For(t, "a gadget to be masked", wait.Patience, func(ctx context.Context) error {
		_, err := the.As(t, site.Hans).Resource(gadgets).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
		if err != nil && !kerrors.IsAlreadyExists(err) {
			return err
		}
		stored, err := the.Admin.Resource(gadgets).Namespace(ns).Get(ctx, "one", metav1.GetOptions{})
		if err == nil && stored.GetAnnotations()["kausality.io/management-policies"] == "" {
			err = errors.Join(errors.New("it is not masked"), the.Admin.Resource(gadgets).Namespace(ns).Delete(ctx, "one", site.Forget))
		}
		return err
	})
	const crd = "gadgets.shop.example.org"
	try := func(ctx context.Context, r schema.GroupVersionResource, name string) error {
		return the.As(t, site.Hans).Resource(r).Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	for r, name := range map[schema.GroupVersionResource]string{site.Definition: crd, providers: provider} { // each by a policy of its own
		wait.For(t, "the deletion of "+name+" to be refused", wait.Patience, func(ctx context.Context) error {
			err := try(ctx, r, name)
			if !kerrors.IsForbidden(err) || !strings.Contains(err.Error(), "kubectl annotate customresourcedefinitions "+crd+" "+allowDeletion+"=true") {
				return fmt.Errorf("the deletion is answered with %w", errors.Join(errors.New("no reason"), err))
			}
			return nil
		})
	}
	require.NoError(t, try(t.Context(), site.Definition, "apps.shop.example.org"), "a kind without masked objects")
	require.NoError(t, try(t.Context(), providers, "provider-other"))

	the.Gate.Stop() // so that nothing is restored
	t.Cleanup(func() {
		require.NoError(t, the.Gate.Restart())
		require.NoError(t, the.Gate.Await(context.Background()))
	})
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "shop", site.Forget))
	require.True(t, kerrors.IsForbidden(try(t.Context(), site.Definition, crd)), "at once after its policy was deleted")
	require.True(t, kerrors.IsForbidden(try(t.Context(), providers, provider)), "and its Provider")

	// Its owner is gone nevertheless: Crossplane was removed.
	require.NoError(t, the.Admin.Resource(revisions).Delete(t.Context(), revision, site.Forget))
	wait.Pause(t, 3*time.Second) // the garbage collector tries
	stored, err := the.Admin.Resource(site.Definition).Get(t.Context(), crd, metav1.GetOptions{})
	require.NoError(t, err)
	require.Nil(t, stored.GetDeletionTimestamp(), "the garbage collector deletes it")

	allow := site.Annotate(allowDeletion, "true")
	require.True(t, kerrors.IsForbidden(site.Merge(t, editorOfCRDs(t), site.Definition, "", crd, allow)), "without the verb approve")
	require.NoError(t, site.Merge(t, the.Admin, site.Definition, "", crd, allow))
	require.NoError(t, site.Merge(t, editorOfCRDs(t), site.Definition, "", crd, site.Annotate("example.org/note", "x")), "what is allowed may be changed")
	gone(t, map[schema.GroupVersionResource][]string{site.Definition: {crd}})
	wait.For(t, "the Provider to be uninstalled", wait.Patience, func(ctx context.Context) error {
		return the.As(t, site.Hans).Resource(providers).Delete(ctx, provider, site.Forget)
	})
	rights.Show(t, the.AuditLog())
}

const (
	provider, revision = "provider-gadgets", "provider-gadgets-0123456789ab"
	packagesGroup      = "pkg.crossplane.io"
)

var (
	providers = schema.GroupVersionResource{Group: packagesGroup, Version: "v1", Resource: "providers"}
	revisions = schema.GroupVersionResource{Group: packagesGroup, Version: "v1", Resource: "providerrevisions"}
)

// packageKinds are the CRDs of Crossplane's packages, in short.
const packageKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: providers.pkg.crossplane.io}
spec:
  group: pkg.crossplane.io
  scope: Cluster
  names: {kind: Provider, plural: providers}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: providerrevisions.pkg.crossplane.io}
spec:
  group: pkg.crossplane.io
  scope: Cluster
  names: {kind: ProviderRevision, plural: providerrevisions}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// providerWithCRD is a Provider with a revision that owns a CRD of managed resources, as Crossplane installs them: a CRD
// that a ManagedResourceDefinition made has no other owner. Another Provider has none.
func providerWithCRD(t *testing.T) {
	t.Helper()
	require.NoError(t, the.Apply(t.Context(), []byte(packageKinds)))
	t.Cleanup(func() {
		for _, name := range []string{"providers." + packagesGroup, "providerrevisions." + packagesGroup} {
			require.NoError(t, the.Admin.Resource(site.Definition).Delete(context.Background(), name, site.Forget))
		}
	})
	install := func(r schema.GroupVersionResource, kind, name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
		o := site.Object(packagesGroup+"/v1", kind, "", name, map[string]any{})
		o.SetOwnerReferences(owners)
		o, err := the.Admin.Resource(r).Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
		return metav1.OwnerReference{APIVersion: packagesGroup + "/v1", Kind: kind, Name: name, UID: o.GetUID(), Controller: new(true)}
	}
	install(providers, "Provider", "provider-other")
	owner := install(revisions, "ProviderRevision", revision, install(providers, "Provider", provider))
	free := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	policies := map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "default": []any{"*"}}
	spec := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": map[string]any{"managementPolicies": policies}}
	crd := site.Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.shop.example.org", map[string]any{
		"group": "shop.example.org", "scope": "Namespaced",
		"names": map[string]any{"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget", "categories": []any{"managed"}},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec, "status": free}}}}},
	})
	crd.SetOwnerReferences([]metav1.OwnerReference{owner})
	_, err := the.Admin.Resource(site.Definition).Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
}

// editorOfCRDs may change CRDs, and approve nothing.
func editorOfCRDs(t *testing.T) dynamic.Interface {
	t.Helper()
	const user = "crd-editor@example.com"
	rbac := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}
	role := site.Object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "crd-editor", nil)
	role.Object["rules"] = []any{map[string]any{"apiGroups": []any{"apiextensions.k8s.io"}, "resources": []any{"customresourcedefinitions"},
		"verbs": []any{"get", "update", "patch"}}}
	binding := site.Object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", "crd-editor", nil)
	binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "crd-editor"}
	binding.Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}}
	for r, o := range map[schema.GroupVersionResource]*unstructured.Unstructured{site.Roles: role, rbac: binding} {
		delete(o.Object, "spec")
		if _, err := the.Admin.Resource(r).Create(t.Context(), o, metav1.CreateOptions{}); !kerrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
	}
	c, err := dynamic.NewForConfig(the.ConfigAs(user))
	require.NoError(t, err)
	return c
}
