package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
	"github.com/kausality-io/function-kausality/internal/cluster/policies"
	"github.com/kausality-io/function-kausality/internal/cluster/scope"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// kinds of the tests: a composite and a managed resource of one group, a plain kind
// of it, and a managed resource of another.
var (
	shopApp   = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "App"}
	shopDB    = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Db"}
	shopPlain = schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Plain"}
	otherDB   = schema.GroupVersionKind{Group: "other.example.org", Version: "v1", Kind: "Cache"}
)

// resourceOf a kind of the tests.
func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

// definition of a kind of the tests.
type definition struct {
	gvk        schema.GroupVersionKind
	role       parent.Role
	namespaced bool
	// status: it has the subresource; policies: it has the field spec.managementPolicies.
	status, policies bool
}

// crd of a kind.
func (d definition) crd() *unstructured.Unstructured {
	version := map[string]any{"name": d.gvk.Version, "served": true, "storage": true}
	if d.status {
		version["subresources"] = map[string]any{"status": map[string]any{}}
	}
	if d.policies {
		version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"properties": map[string]any{"spec": map[string]any{
			"properties": map[string]any{"managementPolicies": map[string]any{}}}}}}
	}
	names := map[string]any{"kind": d.gvk.Kind, "plural": resourceOf(d.gvk).Resource}
	switch d.role {
	case parent.RoleManaged:
		names["categories"] = []any{"managed"}
	case parent.RoleComposite:
		names["categories"] = []any{"composite"}
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"group": d.gvk.Group, "names": names,
		"scope": map[bool]string{true: "Namespaced", false: "Cluster"}[d.namespaced], "versions": []any{version}}}}
	out.SetGroupVersionKind(kinds.CRDs.GroupVersion().WithKind("CustomResourceDefinition"))
	out.SetName(resourceOf(d.gvk).Resource + "." + d.gvk.Group)
	if d.role == parent.RoleInstance {
		out.SetLabels(map[string]string{kinds.LabelGraphOwned: "true", "kro.run/resource-graph-definition-name": "shop"})
	}
	return out
}

// cached is a Cluster of the kinds of the tests that watches what is guarded.
type cached struct {
	*Cluster
	client *fake.FakeDynamicClient
	policy *unstructured.Unstructured // that is in force; nil for none
}

// fixture of a cached Cluster.
type fixture struct {
	// definitions beside those of the kinds of the tests, or in their place.
	definitions []definition
	objects     []runtime.Object
	mapper      meta.RESTMapper
	// late: the policies are not read yet.
	late bool
}

// covered starts a Cluster.
func covered(t *testing.T, f fixture) *cached {
	t.Helper()
	policyCRD := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"creationTimestamp": "2026-01-01T00:00:00Z"}}}
	policyCRD.SetGroupVersionKind(kinds.CRDs.GroupVersion().WithKind("CustomResourceDefinition"))
	policyCRD.SetName(policies.PolicyCRD)
	lists := map[schema.GroupVersionResource]string{kinds.CRDs: "CustomResourceDefinitionList", policies.Resource: "KausalityList",
		scope.Configurations: "MutatingWebhookConfigurationList", resourceOf(deployment): "DeploymentList"}
	crds := map[string]runtime.Object{policies.PolicyCRD: policyCRD}
	for _, d := range append([]definition{{gvk: shopApp, role: parent.RoleComposite}, {gvk: shopDB, role: parent.RoleManaged}, {gvk: shopPlain},
		{gvk: otherDB, role: parent.RoleManaged}}, f.definitions...) {
		crds[d.crd().GetName()], lists[resourceOf(d.gvk)] = d.crd(), d.gvk.Kind+"List"
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, append(slices.Collect(maps.Values(crds)), f.objects...)...)
	if f.mapper == nil {
		f.mapper = meta.NewDefaultRESTMapper(nil)
	}
	k, err := kinds.New(client, f.mapper)
	require.NoError(t, err)
	s, err := scope.New(client)
	require.NoError(t, err)
	p, err := policies.New(client)
	require.NoError(t, err)
	c := &cached{Cluster: &Cluster{Dynamic: client, Kinds: k, Scope: s, Policies: p, States: states.New(client, k)}, client: client}
	c.WatchGuarded(nil, func(err error) { t.Log(err) })
	runs := []func(context.Context){k.Run, c.States.Run}
	if !f.late {
		runs = append(runs, p.Run)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	for _, run := range runs {
		wg.Go(func() { run(ctx) })
	}
	await.Poll(t, "the kinds and policies to be read", func() bool { return k.HasSynced() && (f.late || p.HasSynced()) })
	return c
}

// configured sets a configuration with rules GROUP/RESOURCE, of policies or fixed.
func (c *cached) configured(followed bool, rules ...string) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if followed {
		o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": v1alpha1.ManagerController})
	}
	var list []any
	for _, r := range rules {
		group, resource, _ := strings.Cut(r, "/")
		list = append(list, map[string]any{"apiGroups": []any{group}, "resources": []any{resource}})
	}
	if list != nil {
		o.Object["webhooks"] = []any{map[string]any{"rules": list}}
	}
	c.Scope.Set(o)
}

// covering is a policy for all of a group in place of the one before; "" for none.
func (c *cached) covering(group string) {
	if c.policy != nil {
		c.Policies.Forget(c.policy)
	}
	c.policy = nil
	if group == "" {
		return
	}
	c.policy = &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Kausality",
		"metadata": map[string]any{"name": "one", "uid": group, "creationTimestamp": "2026-01-02T00:00:00Z"},
		"spec":     map[string]any{"resources": []any{map[string]any{"apiGroups": []any{group}, "resources": []any{"*"}}}}}}
	c.Policies.Learn(c.policy)
}

// has an object, masked or not, seen by the watch of its kind.
func (c *cached) has(t *testing.T, gvk schema.GroupVersionKind, masked bool) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	o.SetName("one")
	if masked {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`})
	}
	r := c.client.Resource(resourceOf(gvk))
	_, err := r.Update(t.Context(), o, metav1.UpdateOptions{})
	if err != nil {
		_, err = r.Create(t.Context(), o, metav1.CreateOptions{})
	}
	require.NoError(t, err)
	c.seen(t, gvk, func(o *states.Object) bool { return Masked(o.Annotations) == masked })
}

// seen waits for an object in the watch of its kind.
func (c *cached) seen(t *testing.T, gvk schema.GroupVersionKind, is func(*states.Object) bool) {
	t.Helper()
	await.Poll(t, "the watch of "+gvk.Kind, func() bool { return slices.ContainsFunc(c.States.List(gvk), is) })
}

func (c *cached) watching() string {
	var out []string
	for _, gvk := range c.States.Kinds() {
		out = append(out, gvk.Kind)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
