package external

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestDeletion: an object whose deletion includes its external objects is deleted
// only with an approval (KR-08-42).
func TestDeletion(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "deletion")
	finalized := object("argoproj.io/v1alpha1", "Application", ns, "shop", map[string]any{"project": "default", "destination": map[string]any{}})
	finalized.SetFinalizers([]string{"resources-finalizer.argocd.argoproj.io"})
	for name, tc := range map[string]struct {
		gvr    schema.GroupVersionResource
		object *unstructured.Unstructured
		calm   string
	}{
		"terraform": {gvr: terraforms, object: object("infra.contrib.fluxcd.io/v1alpha2", "Terraform", ns, "net", map[string]any{
			"destroyResourcesOnDeletion": true, "interval": "10m", "sourceRef": map[string]any{"kind": "GitRepository", "name": "infra"}}),
			calm: `{"spec":{"destroyResourcesOnDeletion":false}}`},
		"application": {gvr: applications, object: finalized, calm: `{"metadata":{"finalizers":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := as(t, hans).Resource(tc.gvr).Namespace(ns)
			for _, way := range []string{"approved", "left behind"} {
				_, err := c.Create(t.Context(), tc.object.DeepCopy(), metav1.CreateOptions{})
				require.NoError(t, err)
				err = c.Delete(t.Context(), tc.object.GetName(), metav1.DeleteOptions{})
				if !kerrors.IsForbidden(err) || !strings.Contains(err.Error(), "ExternalDeletionNotAllowed") {
					t.Fatalf("want a refusal, got %v", err)
				}
				_, rest, _ := strings.Cut(err.Error(), "kausality.io/approve-")
				id, _, _ := strings.Cut(rest, "=")
				patch := tc.calm
				if way == "approved" {
					patch = `{"metadata":{"annotations":{"kausality.io/approve-` + id + `":"once"}}}`
				}
				_, err = c.Patch(t.Context(), tc.object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				require.NoError(t, err)
				require.NoError(t, c.Delete(t.Context(), tc.object.GetName(), metav1.DeleteOptions{}))
				o, err := c.Get(t.Context(), tc.object.GetName(), metav1.GetOptions{})
				if err == nil && o.GetDeletionTimestamp() != nil { // its controller's finalizer
					_, err = c.Patch(t.Context(), tc.object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
					require.NoError(t, err)
					_, err = c.Get(t.Context(), tc.object.GetName(), metav1.GetOptions{})
				}
				if !kerrors.IsNotFound(err) {
					t.Fatalf("%s: it is still there: %v", way, err)
				}
			}
		})
	}
}
