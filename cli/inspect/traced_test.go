package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/carry"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestTraced covers KR-12-33: what has a trace id, in its trace, in the beginning of it, or in its tags.
func TestTraced(t *testing.T) {
	id := func(s *storedServer, path string) string {
		o := s.objects[path]
		return external.ProvenanceOf(trace.Of(o.GetAnnotations()), o.GetNamespace()).TraceID
	}
	writeForProvider := func(s *storedServer, value map[string]any) {
		require.NoError(t, unstructured.SetNestedMap(s.objects[databasePath].Object, value, "spec", "forProvider"))
	}
	const old = "0123456789abcdef"
	const approved = `{"apiVersion":"cloud.example.org/v1","kind":"Database","name":"orders-db","generation":2,"user":"crossplane","unrequested":true}`
	for name, tc := range map[string]struct {
		reason    string
		change    func(s *storedServer)
		id        string
		namespace string
		origin    string
		want      []string
		carried   string
		unread    []string
		read      int
	}{
		"Intent":         {reason: "all that one intent changed has its id", origin: "hans", want: []string{"orders-db", "orders"}, read: 2},
		"Namespace":      {reason: "as of -n", namespace: "team", origin: "hans", want: []string{"orders-db", "orders"}, read: 2},
		"OtherNamespace": {reason: "it has no objects", namespace: "other"},
		"Unknown":        {reason: "an id of nothing", id: old, read: 2},
		"Approved": {reason: "the intent is in the beginning of a trace that an unrequested change begins again", origin: "hans",
			want: []string{"orders-db", "orders"}, read: 2, change: func(s *storedServer) {
				own := trace.Of(s.objects[shopPath].GetAnnotations()).String()
				s.annotate(databasePath, v1alpha1.AnnotationKeyTrace, own[:len(own)-1]+","+approved+"]")
			}},
		"Tags": {reason: "the resource in the cloud has the id, and the object was changed since", id: old, want: []string{"orders-db"}, carried: "anna", read: 2,
			change: func(s *storedServer) {
				writeForProvider(s, map[string]any{"tags": map[string]any{carry.TagTraceID: old, carry.TagInitiator: "anna",
					carry.TagOrigin: "Shop.example.org/team/orders@3"}})
			}},
		"Environment": {reason: "so has a run of Terraform", id: old, want: []string{"orders-db"}, carried: "anna", read: 2, change: func(s *storedServer) {
			writeForProvider(s, map[string]any{"env": []any{map[string]any{"name": "A", "value": old}, map[string]any{"name": carry.VariableTraceID, "value": old},
				map[string]any{"name": carry.VariableInitiator, "value": "anna"}}})
		}},
		"Forbidden": {reason: "one kind may not be listed", origin: "hans", want: []string{"orders"}, unread: []string{"databases.cloud.example.org"}, read: 1,
			change: func(s *storedServer) { s.forbidden = "cloud.example.org/v1/" }},
	} {
		t.Run(name, func(t *testing.T) {
			i, s := inspectorOf(t, nil)
			if tc.id == "" {
				tc.id = id(s, shopPath)
			}
			if tc.change != nil {
				tc.change(s)
			}
			got, err := i.Traced(t.Context(), tc.id, tc.namespace)
			require.NoError(t, err)
			var names []string
			for _, o := range got.Objects {
				names = append(names, o.Object.Name)
				assert.Equal(t, tc.carried, o.Initiator, tc.reason)
				assert.Equal(t, tc.carried == "", o.Hop != nil, tc.reason)
			}
			assert.Equal(t, tc.want, names, tc.reason)
			assert.Equal(t, tc.unread, got.Unread, tc.reason)
			assert.Equal(t, tc.read, got.Read, tc.reason)
			if tc.origin == "" {
				assert.Nil(t, got.Origin, tc.reason)
				return
			}
			require.NotNil(t, got.Origin, tc.reason)
			assert.Equal(t, tc.origin, got.Origin.User, tc.reason)
			assert.Equal(t, "team", got.Origin.Namespace, "absolute")
		})
	}
}
