package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestConfigurationForbidden reads as a user without rights on the webhook
// configuration: traces and pending changes are shown; what depends on the
// configuration is an error, never an assumption (KR-12-19).
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

	_, err = i.Explain(t.Context(), database, nil)
	assert.True(t, kerrors.IsForbidden(err), "explain: %v", err)
	_, err = i.Coverage(t.Context(), "")
	assert.True(t, kerrors.IsForbidden(err), "coverage: %v", err)
	_, err = i.Decide(t.Context(), i.Request(AttemptDelete, database, nil))
	assert.True(t, kerrors.IsForbidden(err), "decide: %v", err)
}
