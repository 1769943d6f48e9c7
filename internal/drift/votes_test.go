package drift

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestRecordVotes covers KR-14-12: what the votes lack is written as soon as it is another, and is gone with the rule.
func TestRecordVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := driftClient(t, interceptor.Funcs{})
		r := started(t, Config{Client: c})
		for _, tc := range []struct {
			lacks string
			votes []v1alpha1.Vote
		}{
			{lacks: "0 of 2 approvals; needs 2 more"},
			{lacks: "1 of 2 approvals (anna); needs 1 more", votes: []v1alpha1.Vote{{User: "anna"}}},
			{},
		} {
			i := item("a1")
			i.Report.Votes, i.Report.Lacks = tc.votes, tc.lacks
			r.Enqueue(i)
			synctest.Wait()
			var d v1alpha1.Drift
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a1"}, &d))
			require.Equal(t, v1alpha1.DriftDetected, d.Status.Phase)
			require.Equal(t, tc.lacks, d.Status.Lacks)
			assert.Len(t, d.Status.Votes, len(tc.votes))
		}
	})
}
