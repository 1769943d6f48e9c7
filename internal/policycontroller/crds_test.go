package policycontroller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakemetadata "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// ownedBy is a cluster-scoped object with an owner.
func ownedBy(gvk schema.GroupVersionKind, name string, owner metav1.OwnerReference) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	o.SetName(name)
	o.SetOwnerReferences([]metav1.OwnerReference{owner})
	return o
}

// databaseCRD of a provider, as a ManagedResourceDefinition made it: its revision owns it.
func databaseCRD() *unstructured.Unstructured {
	return ownedBy(crdKind, "databases.shop.example.org",
		metav1.OwnerReference{APIVersion: "pkg.crossplane.io/v1", Kind: "ProviderRevision", Name: "provider-shop-1", UID: "revision"})
}

func providerRevision() *unstructured.Unstructured {
	return ownedBy(revisionKind, "provider-shop-1",
		metav1.OwnerReference{APIVersion: "pkg.crossplane.io/v1", Kind: "Provider", Name: "provider-shop", UID: "provider"})
}

// mask a database of the harness, or restore it.
func (h *harness) mask(t *testing.T, masked bool) {
	t.Helper()
	o := partial(schema.GroupVersionKind{Group: "shop.example.org", Version: "v1", Kind: "Database"})
	o.Namespace, o.Name = "team-a", "orders"
	if masked {
		o.Annotations = map[string]string{v1alpha1.AnnotationKeyManagementPolicies: `["*"]`}
	}
	h.Metadata = fakemetadata.NewSimpleMetadataClient(metadataScheme(t), o)
}

// protects is what is stored, read as after a restart.
func (h *harness) protects(t *testing.T) manifests.Masked {
	t.Helper()
	var out manifests.Masked
	for _, p := range manifests.MaskedPolicies(out) {
		stored := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if h.exists(t, stored, "", p.Name) {
			out.Read(stored)
		}
	}
	return out
}

func (h *harness) mustRun(t *testing.T) {
	t.Helper()
	_, err := h.run(t)
	require.NoError(t, err)
}

// TestMaskedCRDsAreRetained: a CRD and its Provider are protected until nothing is masked, also after their policy was
// deleted, narrowed or is invalid, and after a restart (KR-13-29, KR-13-57).
func TestMaskedCRDsAreRetained(t *testing.T) {
	want := manifests.Masked{CRDs: []string{"databases.shop.example.org"},
		Providers: map[string][]string{"provider-shop": {"databases.shop.example.org"}}}
	for name, change := range map[string]func(t *testing.T, h *harness, k *v1alpha1.Kausality){
		"Deleted": func(t *testing.T, h *harness, k *v1alpha1.Kausality) {
			require.NoError(t, h.Direct.Delete(t.Context(), k))
		},
		"Narrowed": func(t *testing.T, h *harness, k *v1alpha1.Kausality) {
			k.Spec.Resources[0].Resources = []string{"apps"}
			require.NoError(t, h.Direct.Update(t.Context(), k))
		},
		"Invalid": func(t *testing.T, h *harness, k *v1alpha1.Kausality) {
			k.Spec.Resources[0].APIGroups = []string{"coordination.k8s.io"}
			require.NoError(t, h.Direct.Update(t.Context(), k))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil, policyCRD(), shopPolicy(), databaseCRD(), providerRevision())
			now := time.Now()
			h.Now = func() time.Time { return now }
			h.mask(t, true)
			h.mustRun(t)
			require.Equal(t, want, h.protects(t))
			k := &v1alpha1.Kausality{}
			require.NoError(t, h.Direct.Get(t.Context(), client.ObjectKey{Name: "shop"}, k))
			require.Equal(t, want.CRDs, k.Status.MaskedCRDs)

			change(t, h, k)
			for range 3 {
				h.mustRun(t)
				require.Equal(t, want, h.protects(t))
				now = now.Add(time.Minute)
			}
			h.maskedKinds, h.protected, h.applied = nil, manifests.Masked{}, map[string]applied{} // a restart
			h.mustRun(t)
			require.Equal(t, want, h.protects(t), "after a restart")

			h.mask(t, false)
			for range 2 {
				now = now.Add(time.Minute)
				h.mustRun(t)
			}
			assert.Empty(t, h.protects(t).CRDs, "nothing is masked")
			assert.Empty(t, h.protects(t).Providers)
		})
	}
}

// TestAllowedCRD: a Provider may be deleted once the deletion of its CRDs is allowed; the CRD itself may be by its
// annotation.
func TestAllowedCRD(t *testing.T) {
	crd := databaseCRD()
	crd.SetAnnotations(map[string]string{annotationAllowDeletion: "true"})
	h := newHarness(t, nil, policyCRD(), shopPolicy(), crd, providerRevision())
	h.mask(t, true)
	h.mustRun(t)
	assert.Equal(t, []string{"databases.shop.example.org"}, h.protects(t).CRDs)
	assert.Empty(t, h.protects(t).Providers)
	before := h.writes
	h.mustRun(t)
	assert.Equal(t, before, h.writes, "nothing differs: nothing is written")
}
