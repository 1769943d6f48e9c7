package operations

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestUpgradeToTheSubresource: an upgrade to webhook.approverRBAC=true prints whose right to approve it ends, and no other upgrade does
// (KR-02-13).
func TestUpgradeToTheSubresource(t *testing.T) {
	ctx := context.WithoutCancel(t.Context()) // of what is cleaned up
	api, err := kubernetes.NewForConfig(the.Config())
	require.NoError(t, err)
	for name, rules := range map[string][]rbacv1.PolicyRule{
		// As Crossplane's RBAC manager writes it (v2.3.3, internal/controller/rbac/definition/roles.go).
		"upgrade-edits":    {{Verbs: []string{"*"}, APIGroups: []string{"ops.test.example.org"}, Resources: []string{"xparts", "xparts/status"}}},
		"upgrade-approves": {{Verbs: []string{"approve"}, APIGroups: []string{"ops.test.example.org"}, Resources: []string{"xparts/approval"}}},
		"upgrade-views":    {{Verbs: []string{"get"}, APIGroups: []string{"ops.test.example.org"}, Resources: []string{"xparts"}}},
	} {
		meta := metav1.ObjectMeta{Name: name}
		_, err := api.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, api.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}))
		})
		_, err = api.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "group-" + name}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, api.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}))
		})
	}
	upgrade := func(value string) string {
		out, err := the.RunHelm(t.Context(), "upgrade", "kausality", the.Chart(), "--reuse-values", "--dry-run=server", "--set", "webhook.approverRBAC="+value)
		require.NoError(t, err)
		return string(out)
	}
	printed := upgrade("true")
	assert.Contains(t, printed, "Group group-upgrade-edits, by ClusterRole upgrade-edits")
	assert.NotContains(t, printed, "group-upgrade-approves")
	assert.NotContains(t, printed, "group-upgrade-views")
	for _, value := range []string{"false", "resource"} {
		assert.NotContains(t, upgrade(value), "group-upgrade-edits", value)
	}
}
