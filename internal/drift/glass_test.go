package drift

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// A change that one user approved alone is a phase of its own in the reports, and an event about the parent (KR-14-43).
func TestBrokenGlass(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	e, sender := newTestEndpoint(t)
	to := deliveriesTo(c, sender)
	recorder := events.NewFakeRecorder(8)
	r := started(t, Config{Client: c, Receivers: []string{sender.Name}, Events: recorder})
	require.NoError(t, r.Record(t.Context(), item("a1")))
	require.Len(t, e.sent(t, to), 1)
	glass := &v1alpha1.HopApproval{By: []v1alpha1.Vote{{User: "alice", BreakGlass: "it burns"}}}
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", glass))
	reports := e.sent(t, to)
	require.Len(t, reports, 3)
	assert.Equal(t, v1alpha1.DriftBrokenGlass, reports[1].Spec.Phase)
	require.NotNil(t, reports[1].Spec.BrokenGlass)
	assert.Equal(t, "it burns", reports[1].Spec.BrokenGlass.BreakGlass)
	assert.Contains(t, reports[1].Spec.Title, "approved by alice alone: it burns")
	assert.Equal(t, v1alpha1.DriftResolved, reports[2].Spec.Phase)
	assert.Nil(t, reports[2].Spec.BrokenGlass)
	assert.Contains(t, <-recorder.Events, "GlassBroken")
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), "it was approved", glass))
	assert.Len(t, e.sent(t, to), 3)
	assert.Empty(t, recorder.Events)
}
