package orphans

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

const configMapsPath = "/api/v1/namespaces/team/configmaps/"

// configMaps that an API server has, by name, and the names of those that were patched.
type configMaps struct {
	objects map[string]*unstructured.Unstructured
	patched []string
}

// serve them to a cluster.
func (m *configMaps) serve(t *testing.T) *cluster.Cluster {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = metav1.APIGroupList{}
		switch r.URL.Path {
		case "/api":
			answer = metav1.APIVersions{Versions: []string{"v1"}}
		case "/api/v1":
			answer = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
				{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}},
			}}
		case "/apis":
		default:
			name := r.URL.Path[len(configMapsPath):]
			o := m.objects[name]
			if o == nil {
				w.WriteHeader(http.StatusNotFound)
				answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
				break
			}
			if r.Method == http.MethodPatch {
				m.patched = append(m.patched, name)
			}
			answer = o.Object
		}
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(srv.Close)
	c, err := cluster.New(&rest.Config{Host: srv.URL})
	require.NoError(t, err)
	return c
}

// markedBy has the mark of some field managers.
func markedBy(name string, managers ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetNamespace("team")
	o.SetName(name)
	o.SetUID("u")
	o.SetAnnotations(map[string]string{v1alpha1.AnnotationKeyDeletion: v1alpha1.DeletionOrphan})
	var fields []metav1.ManagedFieldsEntry
	for _, m := range managers {
		fields = append(fields, metav1.ManagedFieldsEntry{Manager: m, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:kausality.io/deletion":{}}}}`)}})
	}
	o.SetManagedFields(fields)
	return o
}

// The marks of a deletion that was refused after it was allowed here are removed, those of
// users are not (KR-13-48).
func TestMarks(t *testing.T) {
	deleting := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		return o
	}
	ref := func(name string) parent.Ref {
		return parent.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "team", Name: name, UID: "u"}
	}
	for name, tc := range map[string]struct {
		root, mr *unstructured.Unstructured
		want     []string
	}{
		"Refused":     {root: markedBy("root"), mr: markedBy("mr", v1alpha1.ManagerWebhook), want: []string{"mr"}},
		"Deleting":    {root: deleting(markedBy("root")), mr: markedBy("mr", v1alpha1.ManagerWebhook)},
		"Gone":        {mr: markedBy("mr", v1alpha1.ManagerWebhook)},
		"User":        {root: markedBy("root"), mr: markedBy("mr", "kubectl-annotate")},
		"UserAsWell":  {root: markedBy("root"), mr: markedBy("mr", v1alpha1.ManagerWebhook, "kubectl-annotate")},
		"MRDeleting":  {root: markedBy("root"), mr: deleting(markedBy("mr", v1alpha1.ManagerWebhook))},
		"MRGone":      {root: markedBy("root")},
		"NeverMarked": {root: markedBy("root"), mr: markedBy("mr")},
	} {
		t.Run(name, func(t *testing.T) {
			stored := &configMaps{objects: map[string]*unstructured.Unstructured{}}
			for _, o := range []*unstructured.Unstructured{tc.root, tc.mr} {
				if o != nil {
					stored.objects[o.GetName()] = o
				}
			}
			m := New(stored.serve(t), logr.Discard())
			now := time.Now()
			m.now = func() time.Time { return now }
			m.note(ref("root"), []parent.Ref{ref("mr")})
			assert.Empty(t, m.due(), "the deletion may be stored yet")
			now = now.Add(markSettles)
			due := m.due()
			require.Len(t, due, 1)
			require.NoError(t, m.check(t.Context(), due[0]))
			assert.Equal(t, tc.want, stored.patched)
			assert.Empty(t, m.due())
			m.again(due[0])
			now = now.Add(markRetry)
			assert.Len(t, m.due(), 1)
		})
	}
}
