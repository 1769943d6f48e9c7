package changes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/rights"
)

// TestAuthors: the chart guards Compositions and Functions by a policy that only traces, which can refuse nothing during an outage
// and which is created again; and where the chart is to create none and there is no other policy, the API server calls no webhook
// (KR-07-13).
func TestAuthors(t *testing.T) {
	the.Own(t)
	traceAuthors(t, true)
	t.Cleanup(func() { traceAuthors(t, false) })
	the.AwaitPolicy(t, "authors")
	e, err := the.Entry(t.Context(), "authors.admission.kausality.io")
	require.NoError(t, err)
	require.Equal(t, "Ignore", e["failurePolicy"])
	for _, r := range e["rules"].([]any) {
		rule := r.(map[string]any)
		for _, of := range []string{"apiGroups", "resources"} {
			require.NotContains(t, rule[of], "*")
		}
	}
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "authors", site.Forget))
	the.AwaitPolicy(t, "authors")
	wait.For(t, "the gate to have no right to write what is only traced", wait.Patience, func(ctx context.Context) error {
		o, err := the.Admin.Resource(site.Roles).Get(ctx, "kausality-gate-policies", metav1.GetOptions{})
		if err == nil && strings.Contains(fmt.Sprint(o.Object["rules"]), "patch") {
			err = fmt.Errorf("its rules are %v", o.Object["rules"])
		}
		return err
	})
	traceAuthors(t, false)
	require.NoError(t, the.Admin.Resource(site.Kausality).Delete(t.Context(), "authors", site.Forget))
	for _, o := range []struct {
		of   schema.GroupVersionResource
		name string
	}{{site.Hooks, "kausality"}, {site.Checks, "kausality-policies"}, {site.Roles, "kausality-webhook-policies"}} {
		wait.For(t, o.name+" to be deleted", wait.Patience, func(ctx context.Context) error {
			_, err := the.Admin.Resource(o.of).Get(ctx, o.name, metav1.GetOptions{})
			if kerrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("there is one"), err)
		})
	}
	rights.Show(t, the.AuditLog())
}

// traceAuthors, or no longer, and restart the policy controller.
func traceAuthors(t *testing.T, on bool) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_, err := the.RunHelm(ctx, "upgrade", "kausality", the.Release, "--reuse-values", "--set", fmt.Sprintf("traceAuthors=%t", on))
	require.NoError(t, err)
	the.Controller.Stop()
	the.Controller, err = the.StartComponent(ctx, "controller", 1)
	require.NoError(t, err)
	require.NoError(t, the.Controller.Await(ctx))
}
