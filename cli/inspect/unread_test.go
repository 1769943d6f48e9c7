package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestConfigurationForbidden reads as a user without rights on the webhook
// configuration: what can be read is shown; what depends on the configuration is unknown,
// never an assumption (KR-12-19).
func TestConfigurationForbidden(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) {
		s.forbidden = "admissionregistration.k8s.io/"
		s.annotate(databasePath, v1alpha1.AnnotationKeyTrace, "")
	})
	database := s.objects[databasePath]
	assert.Equal(t, "hans", i.User.Name)

	c, err := i.Chain(t.Context(), database)
	require.NoError(t, err)
	require.NotEmpty(t, c.Notes)
	assert.Contains(t, c.Notes[0], "Nothing is recorded on this object: the reason is unknown, cannot read the webhook configuration")
	_, err = i.About(t.Context(), database)
	require.NoError(t, err)

	e, err := i.Explain(t.Context(), database, nil)
	require.NoError(t, err)
	assert.Contains(t, e.Undecided, "cannot read the webhook configuration")
	assert.Empty(t, e.Outcomes)
	assert.Empty(t, e.Mode.Mode)
	require.NotNil(t, e.Parent)
	assert.True(t, e.Parent.Settled)

	found, err := i.Coverage(t.Context(), "")
	require.NoError(t, err)
	assert.Contains(t, found.Undecided, "cannot read the webhook configuration")
	assert.Zero(t, found.Protected, "nothing is known to be protected")
	assert.NotZero(t, found.Objects)

	_, err = i.Decide(t.Context(), i.Request(AttemptDelete, database, nil))
	assert.True(t, kerrors.IsForbidden(err), "decide: %v", err)
}

// TestPoliciesForbidden: modes depend on policies, so that nothing is decided without them
// (KR-12-19).
func TestPoliciesForbidden(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) { s.forbidden = "kausality.io/v1alpha1/kausalities" })
	e, err := i.Explain(t.Context(), s.objects[databasePath], nil)
	require.NoError(t, err)
	assert.Contains(t, e.Undecided, "cannot read the Kausality policies")
	assert.Empty(t, e.Outcomes)
	found, err := i.Coverage(t.Context(), "")
	require.NoError(t, err)
	assert.Contains(t, found.Undecided, "cannot read the Kausality policies")
	assert.Zero(t, found.Protected)
}

// TestDefinitionsForbidden: without CRDs, roles are those of discovery, and what is unknown
// is named (KR-12-19).
func TestDefinitionsForbidden(t *testing.T) {
	i, s := inspectorOf(t, func(s *storedServer) { s.forbidden = "apiextensions.k8s.io/v1/customresourcedefinitions" })
	e, err := i.Explain(t.Context(), s.objects[databasePath], nil)
	require.NoError(t, err)
	assert.Empty(t, e.Undecided)
	assert.NotEmpty(t, e.Outcomes)
	assert.Equal(t, parent.RoleManaged, e.Role)
	require.NotEmpty(t, e.Unread)
	assert.Contains(t, e.Unread[0], "databases.cloud.example.org: cannot read the CRD")

	found, err := i.Coverage(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, 2, found.Kinds)
	assert.Contains(t, strings.Join(found.Unread, " "), "CRDs: ")
}
