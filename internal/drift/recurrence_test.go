package drift

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/states"
)

// store has one parent, and a cache that is older than it; nil where the parent does not exist.
type store struct {
	stored, cached *states.Object
	applied        []states.Patch
}

func (s *store) Get(_ context.Context, _ parent.Ref, live bool) (*states.Object, error) {
	o := s.cached
	if live {
		o = s.stored
	}
	if o == nil {
		return nil, admission.ErrNotFound
	}
	return o, nil
}

func (s *store) Apply(_ context.Context, _ parent.Ref, p states.Patch) error {
	s.applied = append(s.applied, p)
	return nil
}

// TestEndLeftoverApprovals covers KR-05-40: the second approval of a difference ends although the cache does not have the use of the first.
func TestEndLeftoverApprovals(t *testing.T) {
	const id = "e7e5f0da660f7169"
	key := v1alpha1.AnnotationKeyApprovePrefix + id
	given := time.Now().Add(-time.Minute)
	object := func(version string, more ...v1alpha1.Claim) *states.Object {
		annotations := map[string]string{key: "once"}
		open := v1alpha1.Claim{Content: approval.Parse(annotations).Approvals[0].Content, State: v1alpha1.ClaimOpen, At: approval.Stamp(given)}
		annotations[v1alpha1.AnnotationKeyClaims] = append(approval.Claims{open}, more...).String()
		return &states.Object{State: &parent.State{Annotations: annotations, ResourceVersion: version}}
	}
	used := v1alpha1.Claim{Content: "other", State: v1alpha1.ClaimUsed, Digest: id, At: approval.Stamp(given.Add(2 * time.Second))}

	s := &store{cached: object("1"), stored: object("2", used)}
	require.NoError(t, EndLeftoverApprovals(s, "test")(t.Context(), parent.Ref{}, id))
	require.Len(t, s.applied, 1)
	assert.Equal(t, "2", s.applied[0].ResourceVersion)
	assert.Contains(t, s.applied[0].Annotations, key)
	assert.Nil(t, s.applied[0].Annotations[key], "it is removed")
	assert.Contains(t, *s.applied[0].Annotations[v1alpha1.AnnotationKeyClaims], v1alpha1.ClaimPruned)

	s = &store{cached: object("1", used), stored: object("2")}
	require.NoError(t, EndLeftoverApprovals(s, "test")(t.Context(), parent.Ref{}, id))
	assert.Empty(t, s.applied, "nothing was used")

	s = &store{cached: object("1", used)}
	require.NoError(t, EndLeftoverApprovals(s, "test")(t.Context(), parent.Ref{}, id), "the parent is gone")
	assert.Empty(t, s.applied)
}
