package gate

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/drift"
)

// TestRecorded: an object is reconciled again soon until the Drift of its difference exists, whatever became of the writes of
// the Reporter, which here makes none (KR-10-11).
func TestRecorded(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	store := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.Drift{}, childIndex, indexChild).Build()
	reports, err := drift.NewReporter(drift.Config{Client: store, Log: logr.Discard()})
	require.NoError(t, err)
	r, o := &reporter{drifts: store, drift: reports, log: logr.Discard()}, instance()
	look := func(d gating.Decision) time.Duration {
		t.Helper()
		recorded, err := r.report(t.Context(), o, gating.Managed{MR: o.State}, d)
		require.NoError(t, err)
		return untilRecorded(recorded, renewEvery)
	}
	require.Equal(t, recordAgain, look(differing("a1")))
	stored := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "kausality-system", Name: "a1"}}
	stored.Spec = v1alpha1.DriftSpec{ID: "a1", Relation: v1alpha1.RelationExternal,
		Child: v1alpha1.ObjectReference{Kind: "Instance", Name: "inst", UID: o.State.UID}}
	require.NoError(t, store.Create(t.Context(), stored))
	require.Equal(t, recordAgain, look(differing("a1")), "it has no phase yet")
	stored.Status.Phase = v1alpha1.DriftDetected
	require.NoError(t, store.Update(t.Context(), stored))
	require.Equal(t, renewEvery, look(differing("a1")))
	stored.Status.Phase = v1alpha1.DriftResolved
	require.NoError(t, store.Update(t.Context(), stored))
	require.Equal(t, recordAgain, look(differing("a1")), "others resolved it")
	require.Equal(t, renewEvery, look(gating.Decision{}), "nothing differs")
	require.Equal(t, time.Second, untilRecorded(false, time.Second))
	require.Equal(t, recordAgain, untilRecorded(false, 0))
}
