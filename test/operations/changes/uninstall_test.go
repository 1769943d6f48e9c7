package changes

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/rights"
)

// TestUninstall: `helm uninstall`, with everything running and enforcing, restores
// what is masked, so that deleting a managed resource afterwards deletes its
// external resource; no finalizer or webhook that blocks a client remains (KR-12-08).
func TestUninstall(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "uninstalled")
	installSystems(t)
	the.Enforce(t, ns)
	the.Policy(t, "shop", map[string]any{"mode": "enforce", "resources": []any{map[string]any{"apiGroups": []any{"shop.example.org",
		"cloud.example.org", "argoproj.io", "infra.contrib.fluxcd.io"}, "resources": []any{"*"}}}})
	the.Guarded(t, ns)
	held(t, ns)
	c := the.StartProvider(t)
	for _, name := range []string{"orders", "carts"} {
		the.Database(t, ns, name)
		the.Masked(t, ns, name)
	}
	if out := the.Uninstall(t); !regexp.MustCompile(`; \d+ kinds that the gate has no access to were not read`).MatchString(out) {
		t.Errorf("of what no policy covers, it prints %s", out)
	}
	// The gate, the webhook and the provider still run, and the provider has seen
	// that it may do everything again: nothing is masked again.
	for _, name := range []string{"orders", "carts"} {
		if p, masked := the.PoliciesOf(t, ns, name); masked || p != "*" {
			t.Errorf("the managementPolicies of %s are %s, masked %v", name, p, masked)
		}
	}
	if err := allRestored(t.Context(), ns); err != nil {
		t.Error(err)
	}
	the.StopAll(t)
	_, err := the.App(t, ns, "free") // at once: the webhook refuses no request while it is removed
	require.NoError(t, err)
	the.AwaitNothingRemains(t)
	require.NoError(t, the.As(t, site.Hans).Resource(site.CloudDatabases).Namespace(ns).Delete(t.Context(), "orders", site.Forget))
	wait.For(t, "the database to be deleted in the cloud", wait.Patience, func(ctx context.Context) error {
		_, err := c.Get(ctx, "orders")
		if err == nil {
			err = errors.New("it is still there")
		} else if client.IsNotFound(err) {
			err = nil
		}
		return err
	})
	if _, err := c.Get(t.Context(), "carts"); err != nil {
		t.Errorf("the other database: %v", err)
	}
	rights.Show(t, the.AuditLog())
}
