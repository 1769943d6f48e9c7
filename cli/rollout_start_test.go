package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestCauseOf: what a Rollout cannot select is refused with the command that approves it.
func TestCauseOf(t *testing.T) {
	caused := func(causes ...v1alpha1.HopCause) *v1alpha1.Drift {
		return &v1alpha1.Drift{Spec: v1alpha1.DriftSpec{Relation: v1alpha1.RelationControllerChild, Causes: causes}}
	}
	composition := v1alpha1.HopCause{Kind: v1alpha1.CauseComposition, Name: "shops-1"}
	out, err := causeOf(caused(composition), " -A")
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.RolloutCause{CompositionRevision: "shops-1"}, out)
	for name, tc := range map[string]struct {
		drift *v1alpha1.Drift
		want  string
	}{
		"Graph": {drift: caused(v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: "shop-r00002"}),
			want: "kubectl kausality approve -A --cause graphrevision/shop-r00002 --limit 1"},
		"GraphAndImage": {drift: caused(v1alpha1.HopCause{Kind: v1alpha1.CauseImage, Name: "kro"}, v1alpha1.HopCause{Kind: v1alpha1.CauseGraph, Name: "r"}),
			want: "a Rollout cannot select changes by a revision of a graph"},
		"Two":     {drift: caused(composition, composition), want: "several causes of one kind"},
		"Unknown": {drift: caused(), want: "the cause of these changes is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := causeOf(tc.drift, " -A")
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
