package changes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// stopWebhooks until the test ends.
func stopWebhooks(t *testing.T) {
	t.Helper()
	for _, p := range the.Webhooks {
		p.Stop()
	}
	t.Cleanup(func() {
		for _, p := range the.Webhooks {
			if err := p.Restart(); err != nil {
				t.Error(err)
			} else if err := p.Await(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}

// closedBy waits until the configuration fails closed in a Namespace by its annotation, or no longer, and returns how long that took.
func closedBy(t *testing.T, ns string, want bool) time.Duration {
	t.Helper()
	began := time.Now()
	wait.For(t, fmt.Sprintf("the webhook to fail closed in %s: %v", ns, want), wait.Patience, func(ctx context.Context) error {
		all, err := the.Entries(ctx)
		if err != nil {
			return err
		}
		is := false
		for _, e := range all {
			selectors, _, _ := unstructured.NestedSlice(e, "namespaceSelector", "matchExpressions")
			is = is || e["failurePolicy"] == "Fail" && strings.Contains(fmt.Sprint(selectors), "operator:In values:["+ns+"]")
		}
		if is != want {
			return fmt.Errorf("it is %v", is)
		}
		return nil
	})
	return time.Since(began)
}

// TestEnforcedByAnnotation: a Namespace that enforces by its annotation under a policy in mode log is refused changes while no webhook
// runs, others are not, and the policies show both. Where nothing can be enforced the annotation is refused (KR-12-10, KR-12-11).
func TestEnforcedByAnnotation(t *testing.T) {
	the.Own(t)
	strict, loose := the.Namespace(t, "by-annotation"), the.Namespace(t, "by-policy")
	the.Policy(t, "shop", map[string]any{"mode": "log"})
	the.Guarded(t, strict)
	enforce, err := json.Marshal(site.Annotate("kausality.io/mode", "enforce"))
	require.NoError(t, err)
	for _, critical := range []string{"kube-system", "kube-public", site.Home} {
		wait.For(t, critical+" not to be one that enforces", wait.Patience, func(ctx context.Context) error { // an admission policy that was just installed
			_, err := the.Admin.Resource(site.Namespaces).Patch(ctx, critical, types.MergePatchType, enforce, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			if !kerrors.IsInvalid(err) {
				return fmt.Errorf("want it refused, got %v", err) //nolint:errorlint // nil is an answer, too
			}
			return nil
		})
	}
	the.Enforce(t, strict)
	took, most := closedBy(t, strict, true), controlplane.Patience(time.Second)
	t.Logf("the configuration followed the annotation after %s", took)
	if took > most {
		t.Errorf("the configuration followed the annotation after %s, at most %s are wanted", took, most)
	}
	the.Guarded(t, strict)
	stopWebhooks(t)
	the.StatusOf(t, "shop", "Answering False", "allows, refuses in 1 namespace")

	wait.For(t, "the API server to refuse", wait.Patience, func(context.Context) error {
		if _, err := the.App(t, strict, fmt.Sprint("refused-", time.Now().UnixNano())); !kerrors.IsInternalError(err) {
			return fmt.Errorf("it answers %v", err) //nolint:errorlint // nil is an answer, too
		}
		return nil
	})
	_, err = the.App(t, loose, "allowed")
	require.NoError(t, err, "mode log stops nothing")

	require.NoError(t, site.Merge(t, the.Admin, site.Namespaces, "", strict, site.Annotate("kausality.io/mode", "log")))
	closedBy(t, strict, false)
	wait.For(t, "the API server to allow", wait.Patience, func(context.Context) error {
		_, err := the.App(t, strict, fmt.Sprint("allowed-", time.Now().UnixNano()))
		return err
	})
	the.StatusOf(t, "shop", "Answering False", "allows")
}
