package cluster

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/await"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// What names an object as its parent is below it, whatever the object references
// (KR-13-34).
func TestOwned(t *testing.T) {
	app := parent.Ref{GroupVersionKind: shopApp, Namespace: "shop", Name: "app", UID: "app"}
	claim := parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: "claim", UID: "claim"}
	again, named := app, claim
	again.UID, named.UID = "earlier", ""
	var objects []runtime.Object
	for name, p := range map[string]parent.Ref{"mine": app, "of-an-earlier-one": again, "alone": {}, "of-a-claim": named} {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetGroupVersionKind(shopDB)
		o.SetNamespace("shop")
		o.SetName(name)
		apiVersion, kind := p.ToAPIVersionAndKind()
		switch {
		case p.UID != "":
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: p.Name, UID: p.UID, Controller: new(true)}})
		case p.Name != "":
			o.Object["spec"] = map[string]any{"claimRef": map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": p.Namespace, "name": p.Name}}
		}
		objects = append(objects, o)
	}
	// Composites, which may have a claimRef.
	c := covered(t, fixture{definitions: []definition{{gvk: shopDB, role: parent.RoleComposite, namespaced: true}}, objects: objects})
	c.configured(false, "shop.example.org/*")
	await.Poll(t, "the objects", func() bool { return len(c.States.List(shopDB)) == len(objects) })
	owned := func(by parent.Ref) []parent.Ref { return c.owned(&parent.State{Ref: by}) }
	one := func(name string) []parent.Ref {
		return []parent.Ref{{GroupVersionKind: shopDB, Namespace: "shop", Name: name}}
	}
	if diff := cmp.Diff(one("mine"), owned(app)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if diff := cmp.Diff(one("of-a-claim"), owned(claim)); diff != "" {
		t.Errorf("of a Claim, which is referenced without its UID: -want, +got:\n%s", diff)
	}
}

// TestManagedBelowInstance: an instance of a graph has below it what its labels and its ApplySet show, and is below a composite in turn,
// where it is guarded (KR-13-34, KR-18-01).
func TestManagedBelowInstance(t *testing.T) {
	shop := schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Shop"}
	const set = "applyset-Ff_MDGH9n74jV8DO-Y-gXOZL2NbpR_aIP0HZv_x1640-v1"
	object := func(gvk schema.GroupVersionKind, name string, meta map[string]any, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": meta, "spec": spec}}
		o.SetGroupVersionKind(gvk)
		o.SetNamespace("team")
		o.SetName(name)
		o.SetUID(types.UID(name + "-uid"))
		return o
	}
	refers := func(gvk schema.GroupVersionKind, name string) map[string]any {
		ref := map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "name": name}
		return map[string]any{"crossplane": map[string]any{"resourceRefs": []any{ref}}}
	}
	member := func() map[string]any {
		return map[string]any{"labels": map[string]any{"kro.run/instance-id": "db-uid", "kro.run/instance-name": "db",
			"kro.run/instance-namespace": "team", "kro.run/instance-group": shop.Group, "kro.run/instance-version": shop.Version,
			"kro.run/instance-kind": shop.Kind, "applyset.kubernetes.io/part-of": set}}
	}
	for name, tc := range map[string]struct {
		contains string
		guarded  []string
		want     []string
	}{
		"Contained": {contains: "App.shop.example.org", guarded: []string{"shop.example.org/*", "kro.run/*"}, want: []string{"below"}},
		"Other":     {contains: "ConfigMap", guarded: []string{"shop.example.org/*", "kro.run/*"}},
		"Unguarded": {contains: "App.shop.example.org", guarded: []string{"shop.example.org/*"}},
	} {
		t.Run(name, func(t *testing.T) {
			instance := object(shop, "db", map[string]any{"labels": map[string]any{"applyset.kubernetes.io/id": set}, "annotations": map[string]any{
				"applyset.kubernetes.io/tooling": "kro/v0.9.3", "applyset.kubernetes.io/contains-group-kinds": tc.contains}}, nil)
			inner, mr := object(shopApp, "inner", member(), refers(shopDB, "below")), object(shopDB, "below", map[string]any{}, nil)
			outer := object(shopApp, "outer", map[string]any{}, refers(shop, "db"))

			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{shopApp.GroupVersion()})
			mapper.AddSpecific(shopApp, resourceOf(shopApp), resourceOf(shopApp), meta.RESTScopeNamespace)
			c := covered(t, fixture{mapper: mapper, objects: []runtime.Object{instance, inner, mr}, definitions: []definition{
				{gvk: shop, role: parent.RoleInstance, namespaced: true}, {gvk: shopApp, role: parent.RoleComposite, namespaced: true},
				{gvk: shopDB, role: parent.RoleManaged, namespaced: true, policies: true}}})
			c.configured(false, tc.guarded...)
			c.seen(t, shopApp, func(o *states.Object) bool { return o.State.Name == "inner" })

			for of, managed := range map[string]func(context.Context, *parent.State) ([]*parent.State, error){
				"watches": c.Managed, "reads": (&Direct{Cluster: c.Cluster}).Managed,
			} {
				list, err := managed(t.Context(), c.States.Sum(outer).State)
				require.NoError(t, err, of)
				var got []string
				for _, m := range list {
					got = append(got, m.Name)
				}
				require.Equal(t, tc.want, got, of)
			}
		})
	}
}

// A list that a deletion covers is read again once another one joins, without a change of the composite (KR-13-64).
func TestSumOfWhatIsBelow(t *testing.T) {
	a := parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: "a"}
	b := parent.Ref{GroupVersionKind: shopDB, Namespace: "shop", Name: "b"}
	again := a
	again.UID, again.Version = "u", "v9"
	require.Equal(t, sumOf([]parent.Ref{a, b}), sumOf([]parent.Ref{b, again}))
	require.NotEqual(t, sumOf([]parent.Ref{a}), sumOf([]parent.Ref{a, b}))
	require.NotEqual(t, sumOf([]parent.Ref{a}), sumOf([]parent.Ref{b}))
}
