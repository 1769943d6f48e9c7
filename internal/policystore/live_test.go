package policystore

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestLive: the policies as they are stored do not depend on the watches, which have not even begun; a kind without a CRD has none; what
// cannot be read is an error (KR-13-74).
func TestLive(t *testing.T) {
	rule := `{kind: ApprovalRule, metadata: {name: r, uid: r, generation: 1}, spec: {match: {namespaces: [team]}, require: [{count: 2}]}}`
	s, client := newStore(t, allowing, excepting, rule)
	client.PrependReactor("list", v1alpha1.ResourceUpgradeAllowances, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, kerrors.NewNotFound(gvr(v1alpha1.ResourceUpgradeAllowances).GroupResource(), "")
	})
	set, err := s.Live(t.Context())
	require.NoError(t, err)
	assert.Nil(t, s.Policies(), "the watches have nothing")
	assert.True(t, set.HasRules())
	before := s.live.compiled["r"]
	require.NotNil(t, before)
	lists := len(client.Actions())
	assert.Len(t, s.informers, lists, "each kind is listed once")
	_, err = s.Live(t.Context())
	require.NoError(t, err)
	assert.Len(t, client.Actions(), lists, "what was read a moment ago is not read again")

	require.NoError(t, client.Tracker().Delete(gvr(v1alpha1.ResourceApprovalPolicies), "team", "e"))
	set, err = readLive(t.Context(), s)
	require.NoError(t, err)
	assert.True(t, set.HasRules())
	assert.Len(t, s.live.compiled, 2, "it is gone")
	assert.Same(t, before, s.live.compiled["r"], "what is compiled is not compiled again")

	down := errors.New("down")
	client.PrependReactor("list", v1alpha1.ResourceApprovalRules, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	_, err = readLive(t.Context(), s)
	require.ErrorIs(t, err, down)
	assert.ErrorContains(t, err, "cannot read the approvalrules")
}
