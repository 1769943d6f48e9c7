package kubectl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
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
	the.pipe(t, "approve", id, "--break-glass", "--reason", "the disk is full").has(t, 0, id)
	until("the glass to be broken", true)
	the.pipe(t, "approve", id, "--withdraw").has(t, 0, "Your approval is removed")
	until("that to be withdrawn", false)
}

// votes of two users with certificates of their own, by kubectl: the gate opens by both, and by one of them
// neither alone nor twice (KR-14-01, KR-14-02, KR-14-03).
func votes(t *testing.T) {
	tools, err := parts.Ensure(t.Context(), os.Stderr, "", parts.Kubectl)
	require.NoError(t, err)
	kubectl := map[string]func(args ...string) (string, error){}
	for user, group := range map[string]string{"anna@example.com": "dba", "bob@example.com": "dba", "eve@example.com": "dev"} {
		require.NoError(t, the.Grant(t.Context(), user, access...))
		config, err := the.Kubeconfig(user, user, group)
		require.NoError(t, err)
		kubectl[user] = func(args ...string) (string, error) {
			out, err := exec.CommandContext(t.Context(), tools[parts.Kubectl], append([]string{"--kubeconfig", config}, args...)...).CombinedOutput()
			return string(out), err
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
		votes := func(user, want string) {
			t.Helper()
			out, err := kubectl[user]("annotate", "xdatabase.example.org", "orders", approve+"=once")
			require.NoError(t, err, out)
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
		votes("anna@example.com", one)
		votes("anna@example.com", one)
		votes("eve@example.com", one)
		byPlugin(t, id)
		the.pipe(t, "pending").has(t, 0, "Lacks: "+one)
		is, err := the.Cloud.Get(t.Context(), name)
		require.NoError(t, err)
		if gateClosed(t); is.Size != 9 {
			t.Errorf("one vote of two changed the size to %d", is.Size)
		}
		out, err := kubectl["bob@example.com"]("annotate", "xdatabase.example.org", "orders", approve+"=once")
		require.NoError(t, err, out)
		wait.For(t, "the cloud to have the size again", wait.Patience, func(ctx context.Context) error {
			is, err := the.Cloud.Get(ctx, name)
			if err == nil && is.Size != 20 {
				err = fmt.Errorf("its size is %d", is.Size)
			}
			return err
		})
	})

}
