package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// TestHolders: approvals on the instance that the labels of a managed resource name count for it where the instance contains it, and where
// kro made its kind (KR-18-01).
func TestHolders(t *testing.T) {
	const set = "applyset-Ff_MDGH9n74jV8DO-Y-gXOZL2NbpR_aIP0HZv_x1640-v1"
	shop := schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Shop"}
	for name, tc := range map[string]struct {
		kinds string
		role  parent.Role
		want  []string
	}{
		"Contained":   {kinds: "ConfigMap,Db.shop.example.org", role: parent.RoleInstance, want: []string{"Db", "Shop"}},
		"Other":       {kinds: "ConfigMap", role: parent.RoleInstance, want: []string{"Db"}},
		"NotInstance": {kinds: "ConfigMap,Db.shop.example.org", role: parent.RoleNone, want: []string{"Db"}},
	} {
		t.Run(name, func(t *testing.T) {
			instance := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
				"name": "db", "namespace": "team", "uid": "shop-uid", "labels": map[string]any{"applyset.kubernetes.io/id": set},
				"annotations": map[string]any{"applyset.kubernetes.io/tooling": "kro/v0.9.3", "applyset.kubernetes.io/contains-group-kinds": tc.kinds}}}}
			instance.SetGroupVersionKind(shop)
			mr := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "db", "namespace": "team", "uid": "mr-uid",
				"labels": map[string]any{"kro.run/instance-id": "shop-uid", "kro.run/instance-name": "db", "kro.run/instance-namespace": "team",
					"kro.run/instance-group": shop.Group, "kro.run/instance-version": shop.Version, "kro.run/instance-kind": shop.Kind,
					"applyset.kubernetes.io/part-of": set}}}}
			mr.SetGroupVersionKind(shopDB)

			c := covered(t, fixture{definitions: []definition{{gvk: shop, role: tc.role, namespaced: true}}, objects: []runtime.Object{instance}})
			holders, err := c.holders(t.Context(), c.States.Sum(mr), true, func(*parent.State) bool { return true },
				func(context.Context, *parent.State) (identity.Covering, error) { return identity.Covering{}, nil })
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range holders {
				got = append(got, h.State.Kind)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// TestHoldersUnreadable: a controller that cannot be read holds nothing where its kind is not guarded, since any editor may name one; one that may
// be guarded is an error, as its freeze is not known (KR-13-15).
func TestHoldersUnreadable(t *testing.T) {
	for name, tc := range map[string]struct {
		rule  string
		fails bool
	}{
		"Guarded":   {rule: "shop.example.org/*", fails: true},
		"Unguarded": {rule: "other.example.org/*"},
	} {
		t.Run(name, func(t *testing.T) {
			mr := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "db", "namespace": "team", "uid": "mr-uid",
				"ownerReferences": []any{map[string]any{"apiVersion": "shop.example.org/v1", "kind": "Plain", "name": "mine", "uid": "mine-uid", "controller": true}}}}}
			mr.SetGroupVersionKind(shopDB)
			c := covered(t, fixture{})
			c.configured(false, tc.rule)
			c.client.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return a.GetResource() == resourceOf(shopPlain), nil, kerrors.NewForbidden(a.GetResource().GroupResource(), "mine", errors.New("no right"))
			})
			holders, err := c.holders(t.Context(), c.States.Sum(mr), true, func(*parent.State) bool { return true },
				func(context.Context, *parent.State) (identity.Covering, error) { return identity.Covering{}, nil })
			if (err != nil) != tc.fails || !tc.fails && len(holders) != 1 {
				t.Errorf("want an error %t, got %v and %d holders", tc.fails, err, len(holders))
			}
		})
	}
}
