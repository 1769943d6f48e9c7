package operations

import (
	"context"
	"errors"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

// TestPolicyCheck: an expression that does not compile is refused when it is
// written, in an installation of the chart, too.
func TestPolicyCheck(t *testing.T) {
	the.Policy(t, "shop", map[string]any{"mode": "log"})
	rule := map[string]any{"kind": "App", "mode": "always", "match": map[string]any{"cel": "object.spec.size =="}}
	bad := site.Object("kausality.io/v1alpha1", "ClusterApprovalPolicy", "", "bad", map[string]any{"rules": []any{rule}})
	wait.For(t, "the API server to refuse it", wait.Patience, func(ctx context.Context) error { // the API server reads a new webhook within a second
		_, err := the.Admin.Resource(site.Kausality.GroupVersion().WithResource("clusterapprovalpolicies")).Create(ctx, bad,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if kerrors.IsInvalid(err) && strings.Contains(err.Error(), "rules") {
			return nil
		}
		return errors.Join(errors.New("it is not refused"), err)
	})
}
