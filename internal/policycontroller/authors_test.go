package policycontroller

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

// TestTraceAuthors covers KR-07-13: authors are traced by default, and users keep their policy of that name.
func TestTraceAuthors(t *testing.T) {
	own := &v1alpha1.Kausality{ObjectMeta: metav1.ObjectMeta{Name: manifests.AuthorsPolicy},
		Spec: v1alpha1.KausalitySpec{Suspend: true, Resources: authorsPolicy().Spec.Resources}}
	for name, tc := range map[string]struct {
		reason  string
		off     bool
		objects []client.Object
		want    *v1alpha1.KausalitySpec
	}{
		"Created": {reason: "by default", want: &authorsPolicy().Spec},
		"Kept":    {reason: "a user suspended it", objects: []client.Object{own}, want: &own.Spec},
		"Off":     {reason: "the installation does not want it", off: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil, append(tc.objects, policyCRD())...)
			h.TraceAuthors = !tc.off
			for range 2 {
				_, err := h.Reconcile(t.Context(), reconcile.Request{})
				require.NoError(t, err)
			}
			got := &v1alpha1.Kausality{}
			err := h.Direct.Get(t.Context(), client.ObjectKey{Name: manifests.AuthorsPolicy}, got)
			if tc.want == nil {
				require.Error(t, err, tc.reason)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, *tc.want, got.Spec, tc.reason)
		})
	}
}

// TestTraceAuthorsFails: it is an error of this run, which is repeated, and prevents nothing else.
func TestTraceAuthorsFails(t *testing.T) {
	failed := errors.New("no")
	h := newHarness(t, func(verb string, o client.Object) error {
		if _, ok := o.(*v1alpha1.Kausality); ok && verb == "create" {
			return failed
		}
		return nil
	}, policyCRD(), shopPolicy())
	h.TraceAuthors = true
	_, err := h.Reconcile(t.Context(), reconcile.Request{})
	require.ErrorIs(t, err, failed)
	hook := partial(made[0])
	require.NoError(t, h.Direct.Get(t.Context(), client.ObjectKey{Name: "kausality"}, hook))
}

// TestAuthorsPolicy: it guards nothing but what names authors, and can refuse nothing during an outage.
func TestAuthorsPolicy(t *testing.T) {
	set, errs := settings.Compile([]*v1alpha1.Kausality{authorsPolicy()})
	require.Empty(t, errs)
	require.NoError(t, manifests.Refused(set.Scopes()))
	for _, s := range set.Scopes() {
		assert.Equal(t, v1alpha1.ModeLog, s.Mode)
	}
	s := set.For(settings.Target{Group: "apiextensions.crossplane.io", Resource: "compositions"})
	assert.True(t, s.TraceOnly)
	assert.Empty(t, set.For(settings.Target{Group: "apiextensions.crossplane.io", Resource: "compositionrevisions"}).Policy)
}
