package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
)

func crd(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

const objectsCRD = `
spec:
  group: kubernetes.example.org
  scope: Namespaced
  names: {kind: Object, plural: objects, categories: [crossplane, managed]}
  versions:
  - name: v1alpha1
    served: true
    schema: {openAPIV3Schema: {properties: {spec: {properties: {managementPolicies: {description: "THIS IS AN ALPHA FIELD. Do not use it in production."}}}}}}
  - name: v1alpha2
    served: true
    storage: true
    schema: {openAPIV3Schema: {properties: {spec: {properties: {managementPolicies: {description: "THIS IS A BETA FIELD."}}},
      status: {properties: {lastHandledReconcileAt: {type: string}}}}}}
  - name: v1beta1
    served: true
    schema: {openAPIV3Schema: {type: object}}
  - {name: v1, served: false}
`

// What a CRD defines of its versions: whether they can be gated, and by which sets (KR-01-04).
func TestInfosOf(t *testing.T) {
	got := map[string]identity.Kind{}
	for _, i := range InfosOf(crd(t, objectsCRD)) {
		got[i.GVK.Version] = i.Kind
		if i.Storage != (i.GVK.Version == "v1alpha2") || !i.Namespaced {
			t.Errorf("%s: %+v", i.GVK.Version, i)
		}
	}
	of := func(policies bool, r mask.Runtime, requests bool) identity.Kind {
		return identity.Kind{Role: parent.RoleManaged, Resource: "objects.kubernetes.example.org", ManagementPolicies: policies, Runtime: r,
			ReconcileRequests: requests}
	}
	want := map[string]identity.Kind{"v1alpha1": of(true, mask.RuntimeLegacy, false), "v1alpha2": of(true, mask.RuntimeCurrent, true),
		"v1beta1": of(false, mask.RuntimeCurrent, false)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// The graph of an instance is the one that made its CRD (KR-18-05).
func TestGraphOfKind(t *testing.T) {
	for name, tc := range map[string]struct{ labels, want string }{
		"Graph":  {`kro.run/owned: "true", kro.run/resource-graph-definition-name: shop`, "shop"},
		"NotKro": {`kro.run/owned: "false", kro.run/resource-graph-definition-name: shop`, ""},
		"Other":  {`app: shop`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			info := InfosOf(crd(t, "metadata: {labels: {"+tc.labels+"}}"+objectsCRD))[0]
			if info.Graph != tc.want || (info.Role == parent.RoleInstance) != (tc.want != "") {
				t.Errorf("got %q, role %s", info.Graph, info.Role)
			}
		})
	}
}

// TestGraphOrComposite: the author of a graph cannot make its instances managed resources, by a category or a field. A CRD of an XRD is
// Crossplane's (KR-01-04, KR-18-01).
func TestGraphOrComposite(t *testing.T) {
	made := `metadata: {labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop}}`
	info := InfosOf(crd(t, made+objectsCRD))[0]
	if info.Role != parent.RoleInstance || info.Kind.ManagementPolicies {
		t.Errorf("role %s, management policies %t", info.Role, info.Kind.ManagementPolicies)
	}
	for _, other := range []string{
		`labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop, kro.run/node-id: crd}`,
		`labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop, kro.run/instance-id: u}`,
		`labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop, applyset.kubernetes.io/part-of: a}`,
		`labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop},
  ownerReferences: [{apiVersion: pkg.crossplane.io/v1, kind: ProviderRevision}]`,
	} {
		if info = InfosOf(crd(t, "metadata: {"+other+"}"+objectsCRD))[0]; info.Role != parent.RoleManaged || !info.Kind.ManagementPolicies || info.Graph != "" {
			t.Errorf("%s: role %s, graph %q", other, info.Role, info.Graph)
		}
	}
	owned := `metadata: {ownerReferences: [{apiVersion: apiextensions.crossplane.io/v2, kind: CompositeResourceDefinition, name: x, uid: u}],
  labels: {kro.run/owned: "true", kro.run/resource-graph-definition-name: shop}}`
	info = InfosOf(crd(t, owned+objectsCRD))[0]
	if info.Role != parent.RoleManaged || info.Graph != "" {
		t.Errorf("role %s, graph %q", info.Role, info.Graph)
	}
}

// A version that is no longer served is forgotten, and with its CRD a kind is; both
// are reported, so that they are not watched for ever.
func TestKindsForget(t *testing.T) {
	k := &Kinds{byGVK: map[schema.GroupVersionKind]version{}, legacy: map[schema.GroupKind]bool{}}
	var gone []string
	k.OnGone(func(gvk schema.GroupVersionKind) { gone = append(gone, gvk.Version) })
	before := definitionOf(crd(t, objectsCRD))
	after := &definition{versions: before.versions[1:]}
	k.learn(before)
	k.legacy[before.versions[0].GVK.GroupKind()] = true
	k.drop(before, after)
	k.learn(after)
	if diff := cmp.Diff([]string{"v1alpha1"}, gone); diff != "" || len(k.All()) != 1 || len(k.byGVK) != 2 || len(k.legacy) != 1 {
		t.Errorf("gone %v, known %v, legacy %v", gone, k.byGVK, k.legacy)
	}
	k.forget(after)
	if len(gone) != 3 || len(k.byGVK) != 0 || len(k.legacy) != 0 {
		t.Errorf("gone %v, known %v, legacy %v", gone, k.byGVK, k.legacy)
	}
}

// A CRD defines which field /scale changes, and a resource leads to its kind.
func TestScalePath(t *testing.T) {
	versionOf := func(name, path string) any {
		v := map[string]any{"name": name, "served": true}
		if path != "" {
			v["subresources"] = map[string]any{"scale": map[string]any{"specReplicasPath": path}}
		}
		return v
	}
	infos := InfosOf(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "example.org", "scope": "Namespaced", "names": map[string]any{"kind": "Pool", "plural": "pools"},
		"versions": []any{versionOf("v1", ".spec.nodes.count"), versionOf("v2", "")},
	}}})
	k := &Kinds{byGVK: map[schema.GroupVersionKind]version{}}
	for _, i := range infos {
		k.byGVK[i.GVK] = version{Info: i}
	}
	for name, want := range map[string]string{"v1": "spec.nodes.count", "v2": ""} {
		got, err := k.OfResource(schema.GroupVersionResource{Group: "example.org", Version: name, Resource: "pools"})
		assert.NoError(t, err)
		assert.Equal(t, want, got.ScalePath)
		assert.Equal(t, "Pool", got.GVK.Kind)
	}
}
