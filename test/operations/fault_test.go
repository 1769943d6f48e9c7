package operations

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestChartDryRun: the API server accepts the chart's manifests with other values,
// too.
func TestChartDryRun(t *testing.T) {
	for name, args := range map[string][]string{
		"Defaults": nil,
		"Much": {"--set", "defaultMode=enforce,notifier.enabled=true,notifier.tlsSecretName=tls,metrics.dashboards.enabled=true," +
			"webhook.replicas=3,crds.keep=false"},
		"Little": {"--set", "metrics.enabled=false,ungate.enabled=false,crds.install=false"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := the.Render(t.Context(), args...)
			require.NoError(t, err)
			for _, o := range objects {
				r, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
				c := the.Admin.Resource(r).Namespace(o.GetNamespace())
				_, err := c.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "helm", Force: true, DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}
