package decider

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster"
	"github.com/kausality-io/function-kausality/internal/decider/settler"
	"github.com/kausality-io/function-kausality/internal/decider/stored"
)

// TestNotStored: a client that finds another object than it was to change tries again, and a review that
// is forged is answered alike (KR-13-23).
func TestNotStored(t *testing.T) {
	refused := &UndecidedError{Mode: v1alpha1.ModeEnforce, Err: stored.ErrNotStored}
	assert.EqualValues(t, http.StatusConflict, refused.Code())
	assert.Contains(t, refused.Error(), "try again")
	passes := &UndecidedError{Mode: v1alpha1.ModeLog, Err: stored.ErrNotStored}
	assert.Zero(t, passes.Code())
	assert.Contains(t, passes.Warning(), "try again")
}

// TestParentsByName: a parent that is named without a UID is not read, but for a Claim (KR-13-23).
func TestParentsByName(t *testing.T) {
	c, err := cluster.New(&rest.Config{Host: "127.0.0.1:1"})
	require.NoError(t, err)
	w := &world{cluster: c, fresh: cluster.NewFresh(c, nil), memory: settler.NewMemory()}
	ref := parent.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "team", Name: "app"}
	_, err = w.Parent(t.Context(), ref, true)
	assert.ErrorIs(t, err, admission.ErrNotFound)
	ref.UID = "u"
	_, err = w.Parent(t.Context(), ref, true)
	assert.NotErrorIs(t, err, admission.ErrNotFound)
}
