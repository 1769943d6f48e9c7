package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// documented arguments of helm, as docs/install.md has them for a newcomer, with
// another chart in place of the repository's.
func (l *environment) documented(chart string) ([]string, error) {
	all, err := l.steps("docs/install.md")
	if err != nil {
		return nil, err
	}
	line := all[0].command
	line = strings.NewReplacer("REPOSITORY", "registry.example.org/kausality", "TAG", "v0.1.0").Replace(line)
	args := strings.Fields(line)
	const path = "package/helm/kausality"
	if len(args) < 4 || strings.Join(args[:4], " ") != "helm install kausality "+path {
		return nil, fmt.Errorf("docs/install.md begins with %q", line)
	}
	args[3] = chart
	return args[1:], nil
}

// TestPolicyCheck: an expression that does not compile is refused when it is
// written, in an installation of the chart, too.
func TestPolicyCheck(t *testing.T) {
	policy(t, "shop", map[string]any{"mode": "log"})
	rule := map[string]any{"kind": "App", "mode": "always", "match": map[string]any{"cel": "object.spec.size =="}}
	bad := object("kausality.io/v1alpha1", "ClusterApprovalPolicy", "", "bad", map[string]any{"rules": []any{rule}})
	wait.For(t, "the API server to refuse it", wait.Patience, func(ctx context.Context) error { // the API server reads a new webhook within a second
		_, err := the.admin.Resource(kausality.GroupVersion().WithResource("clusterapprovalpolicies")).Create(ctx, bad,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if kerrors.IsInvalid(err) && strings.Contains(err.Error(), "rules") {
			return nil
		}
		return errors.Join(errors.New("it is not refused"), err)
	})
}
