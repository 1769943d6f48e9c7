package operations

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestAuthors: the chart guards Compositions and Functions by a policy that only traces, which can refuse nothing during an outage
// and which is created again; and where the chart is to create none and there is no other policy, the API server calls no webhook
// (KR-07-13).
func TestAuthors(t *testing.T) {
	the.traceAuthors(t, true)
	t.Cleanup(func() { the.traceAuthors(t, false) })
	awaitPolicy(t, "authors")
	e, err := entry(t.Context(), "authors.admission.kausality.io")
	require.NoError(t, err)
	require.Equal(t, "Ignore", e["failurePolicy"])
	for _, r := range e["rules"].([]any) {
		rule := r.(map[string]any)
		for _, of := range []string{"apiGroups", "resources"} {
			require.NotContains(t, rule[of], "*")
		}
	}
	require.NoError(t, the.admin.Resource(kausality).Delete(t.Context(), "authors", forget))
	awaitPolicy(t, "authors")
	o, err := the.admin.Resource(roles).Get(t.Context(), "kausality-gate-policies", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprint(o.Object["rules"]), "patch", "what is only traced is not written")
	the.traceAuthors(t, false)
	require.NoError(t, the.admin.Resource(kausality).Delete(t.Context(), "authors", forget))
	for _, o := range []struct {
		of   schema.GroupVersionResource
		name string
	}{{hooks, "kausality"}, {checks, "kausality-policies"}, {roles, "kausality-webhook-policies"}} {
		wait.For(t, o.name+" to be deleted", wait.Patience, func(ctx context.Context) error {
			_, err := the.admin.Resource(o.of).Get(ctx, o.name, metav1.GetOptions{})
			if kerrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("there is one"), err)
		})
	}
}

// traceAuthors, or no longer, and restart the policy controller.
func (l *environment) traceAuthors(t *testing.T, on bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_, err := l.run(ctx, "upgrade", "kausality", l.release, "--reuse-values", "--set", fmt.Sprintf("traceAuthors=%t", on))
	require.NoError(t, err)
	l.controller.Stop()
	l.controller, err = l.start(ctx, "controller", 1)
	require.NoError(t, err)
	require.NoError(t, l.controller.Await(ctx))
}
