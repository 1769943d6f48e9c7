package stored

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

// apiServer that has ConfigMap team/stored, and answers what it does not have with 404.
func apiServer(t *testing.T) *cluster.Cluster {
	t.Helper()
	answers := map[string]any{
		"/api": metav1.APIVersions{Versions: []string{"v1"}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}},
		}},
		"/apis": metav1.APIGroupList{},
		"/api/v1/namespaces/team/configmaps/stored": configMap("stored", "u", "7", "a").Object,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	c, err := cluster.New(&rest.Config{Host: srv.URL})
	require.NoError(t, err)
	return c
}

func configMap(name, uid, version, data string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": data}}}
	o.SetNamespace("team")
	o.SetName(name)
	o.SetUID(types.UID(uid))
	o.SetResourceVersion(version)
	return o
}

// TestStored: an approval is used for, and a Drift recorded of, what is stored (KR-13-21, KR-13-22).
func TestStored(t *testing.T) {
	c := apiServer(t)
	for name, tc := range map[string]struct {
		operation admission.Operation
		name      string
		old       *unstructured.Unstructured
		// verified: the approval may be used. refused, passed: it is recorded where the request is refused, or passed.
		verified, refused, passed bool
	}{
		"Stored": {operation: admission.Update, name: "stored", old: configMap("stored", "u", "7", "a"),
			verified: true, refused: true, passed: true},
		"Changed":      {operation: admission.Update, name: "stored", old: configMap("stored", "u", "6", "b"), passed: true},
		"OtherVersion": {operation: admission.Update, name: "stored", old: configMap("stored", "u", "6", "a"), refused: true, passed: true},
		"OtherObject":  {operation: admission.Update, name: "stored", old: configMap("stored", "other", "7", "a")},
		"NotThere":     {operation: admission.Update, name: "none", old: configMap("none", "u", "7", "a")},
		"Deleted": {operation: admission.Delete, name: "stored", old: configMap("stored", "u", "7", "a"),
			verified: true, refused: true, passed: true},
		"DeletedBefore":  {operation: admission.Delete, name: "none", old: configMap("none", "u", "7", "a"), passed: true},
		"Created":        {operation: admission.Create, name: "none", verified: true, refused: true, passed: true},
		"CreatedBefore":  {operation: admission.Create, name: "stored", refused: true, passed: true},
		"CreatedUnnamed": {operation: admission.Create, verified: true, refused: true, passed: true},
	} {
		t.Run(name, func(t *testing.T) {
			req := &admission.Request{Operation: tc.operation, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "team",
				Name: tc.name, OldObject: tc.old, Object: configMap(tc.name, "", "", "c")}
			if tc.operation == admission.Delete {
				req.Object = nil
			}
			err := Verify(t.Context(), c, req)
			assert.Equal(t, tc.verified, err == nil, "%v", err)
			require.NoError(t, Known(t.Context(), c, req), "its kind is not watched")
			assert.True(t, err == nil || errors.Is(err, ErrNotStored))
			for allowed, want := range map[bool]bool{false: tc.refused, true: tc.passed} {
				is, req := true, *req
				req.OldObject = tc.old.DeepCopy()
				if check := Still(c, &req, allowed); check != nil {
					if req.OldObject != nil { // the API server goes on with it
						req.OldObject.Object["data"].(map[string]any)["k"] = "later"
						delete(req.OldObject.Object, "metadata")
					}
					is, err = check(t.Context())
					require.NoError(t, err)
				}
				assert.Equal(t, want, is, "allowed: %v", allowed)
			}
		})
	}
}
