package gate

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
)

// TestRepeatConflict: a deletion that is answered with a conflict, because the object changed while the webhook decided, is repeated again; one of an
// object that is gone is not (KR-08-13).
func TestRepeatConflict(t *testing.T) {
	reason := metav1.StatusReasonConflict
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete && reason == metav1.StatusReasonConflict:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`))
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		case r.URL.Path == "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case r.URL.Path == "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.org",` +
				`"versions":[{"groupVersion":"example.org/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.org/v1","version":"v1"}}]}`))
		case r.URL.Path == "/apis/example.org/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.org/v1","resources":[{"name":"instances","kind":"Instance"}]}`))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	cl, err := cluster.New(&rest.Config{Host: s.URL})
	require.NoError(t, err)
	o := instance()
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Name: "00000000000000aa"}}
	d.Spec.Relation, d.Spec.Operation = v1alpha1.RelationExternal, "DELETE"
	d.Spec.Child.UID = o.UID
	d.Status.Phase, d.Status.RepeatFor = v1alpha1.DriftDetected, "the garbage collector"
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	drifts := fake.NewClientBuilder().WithScheme(scheme).WithObjects(d).WithIndex(&v1alpha1.Drift{}, deletionIndex, indexDeletion).Build()
	m := managed{core: &core{cluster: cl, reporter: &reporter{drifts: drifts, events: events.NewFakeRecorder(1)}}}
	err = m.repeatOne(t.Context(), o)
	require.ErrorContains(t, err, "cannot repeat the deletion that was refused to the garbage collector")
	assert.True(t, kerrors.IsConflict(err), "which is tried again without a message")
	reason = metav1.StatusReasonNotFound
	require.NoError(t, m.repeatOne(t.Context(), o))
}
