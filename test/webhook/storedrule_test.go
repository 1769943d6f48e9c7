package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestStoredRules: an ApprovalRule that is not right and was stored while the webhook for policies did not answer has a condition
// with the path of what is wrong, and changes that it matches are refused (KR-14-24, KR-14-14). It does not run in
// parallel: other tests have that webhook called.
func TestStoredRules(t *testing.T) {
	f := startFleet(t, "stored", options{replicas: 1})
	s := newFixture(t, f, "stored")
	s.settled("part")
	for field, rest := range map[string]string{
		"spec.windows.timeZone":          `require: [{count: 1}], windows: {timeZone: Europe/Bonn, deny: [{schedule: "0 0 * * *", duration: 1h}]}`,
		"spec.windows.allow[0].schedule": `require: [{count: 1}], windows: {allow: [{schedule: "0 0 30 2 *", duration: 1h}]}`,
		"spec.windows.deny": `require: [{count: 1}],
  windows: {allow: [{schedule: "0 9 * * *", duration: 1h}], deny: [{schedule: "0 0 * * *", duration: 24h}]}`,
		"spec.require[0].count": `require: [{count: 2, subjects: [{kind: User, name: anna}]}]`,
		"spec.expiresAfter":     `require: [{count: 1}], expiresAfter: 0s`,
	} {
		t.Run(field, func(t *testing.T) {
			const name = "stored"
			write(t, approvalRules, policy(t, "ApprovalRule", name, "{match: {namespaces: [stored]}, "+rest+"}"))
			wait.For(t, "the rule to be reported", wait.Patience, func(ctx context.Context) error {
				o, err := the.as(t, hans).Resource(approvalRules).Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
				for _, c := range conditions {
					if m := c.(map[string]any); m["type"] == "Compiled" && m["status"] == "False" && strings.Contains(fmt.Sprint(o.Object["status"]), field) {
						return nil
					}
				}
				return fmt.Errorf("status %v", o.Object["status"])
			})
			id := ""
			wait.Often(t, "the change to be refused", wait.Patience, func() error {
				err := s.count(s.ctrl, "part", 1)
				if id = mustRefuse(t, err, "Drift"); !strings.Contains(err.Error(), "ApprovalRule stored does not compile, see its status") {
					return err
				}
				return nil
			})
			s.vote("anna", id)
			mustRefuse(t, s.count(s.ctrl, "part", 1), "Drift")
			require.NoError(t, the.as(t, hans).Resource(approvalRules).Delete(t.Context(), name, metav1.DeleteOptions{}))
		})
	}
}
