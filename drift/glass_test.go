package drift

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/parent"
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
	glass := &v1alpha1.Vote{User: "alice", BreakGlass: "it burns"}
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

// TestGlassOf: the last vote of this kind for the difference, on any object that may be approved on, and only where the
// approval was used (KR-14-43).
func TestGlassOf(t *testing.T) {
	d := &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: "d1"}}
	with := func(claims string) *parent.State {
		return &parent.State{Annotations: map[string]string{v1alpha1.AnnotationKeyClaims: claims}}
	}
	voted := with(`[{"content":"a","state":"used","digest":"d1","by":[{"user":"anna","breakGlass":"x"},{"user":"bob"},{"user":"alice","breakGlass":"it burns"}]}]`)
	for name, tc := range map[string]struct {
		approved bool
		on       []*parent.State
		want     string
	}{
		"Voted":           {approved: true, on: []*parent.State{nil, with("[]"), voted}, want: "alice"},
		"EndedOtherwise":  {on: []*parent.State{voted}},
		"OtherDifference": {approved: true, on: []*parent.State{with(`[{"content":"a","state":"used","digest":"d2","by":[{"user":"anna","breakGlass":"x"}]}]`)}},
		"Ordinary":        {approved: true, on: []*parent.State{with(`[{"content":"a","state":"used","digest":"d1","by":[{"user":"anna"}]}]`)}},
		"None":            {approved: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if v := GlassOf(d, tc.approved, tc.on...); v != nil {
				got = v.User
			}
			assert.Equal(t, tc.want, got)
		})
	}
}
