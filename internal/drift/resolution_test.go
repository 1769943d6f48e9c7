package drift

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestApproved covers KR-05-40: what is left of the approvals of a difference ends before its Drift does, and only where an approval ended that.
func TestApproved(t *testing.T) {
	c := driftClient(t, interceptor.Funcs{})
	var on []string
	var failure error
	r := started(t, Config{Client: c, Approved: func(_ context.Context, p parent.Ref, id string) error {
		on = append(on, p.Name+" "+id)
		return failure
	}})
	require.NoError(t, r.Record(t.Context(), item("a1")))
	failure = errors.New("the API server is away")
	require.ErrorIs(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), settling.WhyApproved, nil), failure)
	assert.Equal(t, v1alpha1.DriftDetected, get(t, c, "ns", "a1").Status.Phase, "it is tried again")
	failure = nil
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a1"), settling.WhyApproved, nil))
	assert.Equal(t, v1alpha1.DriftResolved, get(t, c, "ns", "a1").Status.Phase)
	assert.Equal(t, []string{"app a1", "app a1"}, on)

	external := item("a2")
	external.Report.Drift.Relation = v1alpha1.RelationExternal
	external.Report.Drift.Child.Name, external.Report.Drift.Child.UID = "db", "u2"
	require.NoError(t, r.Record(t.Context(), external))
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a2"), settling.WhyApproved, nil))
	assert.Equal(t, []string{"app a2", "db a2"}, on[2:], "what is external may be approved on the child, too")

	failure = kerrors.NewForbidden(schema.GroupResource{Resource: "apps"}, "app", errors.New("refused by another webhook"))
	require.NoError(t, r.Record(t.Context(), item("a4")))
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a4"), settling.WhyApproved, nil), "what is never accepted keeps no Drift open")
	assert.Equal(t, v1alpha1.DriftResolved, get(t, c, "ns", "a4").Status.Phase)
	failure, on = nil, on[:4]

	require.NoError(t, r.Record(t.Context(), item("a3")))
	require.NoError(t, r.Resolve(t.Context(), get(t, c, "ns", "a3"), "the parent has a new intent", nil))
	assert.Len(t, on, 4)
}
