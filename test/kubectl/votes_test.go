package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// twoOfDBA must approve what is changed back in the cloud.
const twoOfDBA = `
apiVersion: kausality.io/v1alpha1
kind: ApprovalRule
metadata: {name: two-of-dba}
spec:
  match: {resources: [{group: cloud.example.org, kinds: [Database]}], relations: [External], verbs: [Update]}
  require: [{count: 2, subjects: [{kind: Group, name: dba}], notAuthors: true}]
`

// access of the voters: to databases in whatever form, as hans has it.
var access = []rbacv1.PolicyRule{{
	APIGroups: []string{"example.org", "cloud.example.org", "kubernetes.m.crossplane.io", "kausality.io"}, Resources: []string{"*"}, Verbs: []string{"*"},
}}

// byPlugin breaks the glass as a user whom no rule names for it, whose vote does not count as the author's, and withdraws that (KR-14-41).
func byPlugin(t *testing.T, id string) {
	t.Helper()
	until := func(what string, there bool) {
		t.Helper()
		wait.For(t, what, wait.Patience, func(context.Context) error {
			claims, left := stored(t, "orders", v1alpha1.AnnotationKeyClaims), stored(t, "orders", v1alpha1.AnnotationKeyApprovePrefix+id)
			if strings.Contains(claims, `"breakGlass":"the disk is full"`) != there || !strings.Contains(claims, "anna@example.com") || left != "" {
				return fmt.Errorf("the claims are %s, the annotation %q", claims, left)
			}
			return nil
		})
	}
	the.pipe(t, "approve", id, "--break-glass", "the disk is full").has(t, 6, "does not count")
	until("the glass to be broken", true)
	the.pipe(t, "withdraw", id).has(t, 0, "Your approval is removed")
	until("that to be withdrawn", false)
	the.pipe(t, "withdraw", id).has(t, 1, "hans@example.com has not approved "+id)
}

// votes of two users with certificates of their own, by the plugin: the gate opens by both, and by one of them
// neither alone nor twice (KR-14-01, KR-14-02, KR-14-03, KR-14-44).
func votes(t *testing.T) {
	plugin := map[string]func(args ...string) (string, int){}
	for user, group := range map[string]string{"anna@example.com": "dba", "bob@example.com": "dba", "eve@example.com": "dev"} {
		require.NoError(t, the.Grant(t.Context(), user, access...))
		config, err := the.Kubeconfig(user, user, group)
		require.NoError(t, err)
		plugin[user] = func(args ...string) (string, int) {
			cmd := exec.CommandContext(t.Context(), the.plugin, append([]string{"--kubeconfig", config}, args...)...)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				require.NoError(t, err)
			}
			return string(out), cmd.ProcessState.ExitCode()
		}
	}
	name := strings.TrimPrefix(database(t), "database/")
	inForce(t, twoOfDBA, v1alpha1.ResourceApprovalRules, "two-of-dba", func() {
		gateClosed(t)
		require.NoError(t, the.ChangeOutside(t.Context(), client.Fields{"size": 9}))
		id := ""
		wait.For(t, "the drift to be listed", wait.Patience, func(context.Context) error {
			id = strings.TrimPrefix(strings.TrimSpace(the.pipe(t, "pending", xr, "-o", "name").out), "drift.kausality.io/")
			if id == "" || strings.Contains(id, "\n") {
				return fmt.Errorf("it is %q", id)
			}
			return nil
		})
		approve := v1alpha1.AnnotationKeyApprovePrefix + id
		votes := func(user, want string, code int, prints string) {
			t.Helper()
			if out, got := plugin[user]("approve", id); got != code || !strings.Contains(out, prints) {
				t.Errorf("%s approves, exit code %d: %s, want %d, %q", user, got, out, code, prints)
			}
			wait.For(t, "the vote of "+user+" to be stored", wait.Patience, func(context.Context) error {
				if stored(t, "orders", approve) != "" {
					return errors.New("its annotation is left")
				}
				if got := stored(t, "orders", v1alpha1.AnnotationKeyClaims); !strings.Contains(got, user) {
					return fmt.Errorf("the claims are %s", got)
				}
				return nil
			})
			if r := the.pipe(t, "explain", database(t)); !strings.Contains(r.out, want) {
				t.Errorf("explain after the vote of %s: %s, want %q", user, r.out, want)
			}
		}
		const one = "1 of 2 approvals (anna@example.com); needs 1 more of group dba, not hans@example.com (ApprovalRule two-of-dba)"
		votes("anna@example.com", one, 0, "Your vote counts: "+one+".\n")
		votes("anna@example.com", one, 0, "You had voted already, and have one vote: "+one+".\n")
		votes("eve@example.com", one, 6, "Your vote does not count: eve@example.com is not of group dba (ApprovalRule two-of-dba). "+one+".\n")
		the.pipe(t, "approve", database(t), "--any", "--mode", "always", "--external", "Update", "--dry-run").has(t, 0,
			"But it allows nothing that ApprovalRule two-of-dba matches")
		byPlugin(t, id)
		the.pipe(t, "pending").has(t, 0, "Lacks: "+one)
		is, err := the.Cloud.Get(t.Context(), name)
		require.NoError(t, err)
		if gateClosed(t); is.Size != 9 {
			t.Errorf("one vote of two changed the size to %d", is.Size)
		}
		out, code := plugin["bob@example.com"]("approve", id)
		if code != 0 || !strings.Contains(out, "Your vote counts. The change is allowed. The gate opens for exactly this change") {
			t.Errorf("exit code %d: %s", code, out)
		}
		wait.For(t, "the cloud to have the size again", wait.Patience, func(ctx context.Context) error {
			is, err := the.Cloud.Get(ctx, name)
			if err == nil && is.Size != 20 {
				err = fmt.Errorf("its size is %d", is.Size)
			}
			return err
		})
	})

}
