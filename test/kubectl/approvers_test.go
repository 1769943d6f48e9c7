package kubectl

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// words of a table, separated by one blank each.
func words(table string) string { return strings.Join(strings.Fields(table), " ") }

// approvers lists who may approve by RBAC, and whose verb is on the resource alone.
func approvers(t *testing.T) {
	the.pipe(t, "approvers").has(t, 1, "cannot list ClusterRoles")
	api, err := kubernetes.NewForConfig(the.Config())
	require.NoError(t, err)
	reads := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-rbac"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName},
		Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"}, Verbs: []string{"list"}}}}
	_, err = api.RbacV1().ClusterRoles().Create(t.Context(), reads, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, the.Bind(t.Context(), story.Hans, reads.Name))
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edits"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{story.XDatabases.Group}, Resources: []string{"xdatabases", "xdatabases/status"}, Verbs: []string{"*"}}}}
	_, err = api.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "edits"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edits"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "editors"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	var lost result
	wait.For(t, "hans to read roles", 30*time.Second, func(context.Context) error {
		if lost = the.pipe(t, "approvers", "--lost", "--exit-code"); lost.code != 4 {
			return fmt.Errorf("exit code %d: %s", lost.code, lost.out)
		}
		return nil
	})
	lost.has(t, 4, "Group editors")
	assert.Contains(t, words(lost.out), "Group editors default resource, lost with --approver-rbac=true xdatabases.example.org ClusterRole edits")
	var all []map[string]any
	the.structured(t, &all, "approvers", "-o", "json")
	assert.Contains(t, all, map[string]any{"subject": "Group editors", "namespace": "default", "right": "resource",
		"resources": []any{"xdatabases.example.org"}, "role": "ClusterRole edits", "loses": true})

	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{story.XDatabases.Group}, Resources: []string{"xdatabases/approval"},
		Verbs: []string{"approve"}})
	_, err = api.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.NotContains(t, the.pipe(t, "approvers", "--lost").out, "editors")
	the.pipe(t, "approvers").has(t, 0, "Group editors")
}

// approvals lists what is approved and not used, and which of it an earlier release's id makes void (KR-13-64).
func approvals(t *testing.T) {
	admin, err := dynamic.NewForConfig(the.Config())
	require.NoError(t, err)
	o, err := admin.Resource(story.XDatabases).Namespace("default").Get(t.Context(), "orders", metav1.GetOptions{})
	require.NoError(t, err)
	s := parent.Sum(o, parent.RoleComposite)
	key := v1alpha1.AnnotationKeyApprovePrefix + identity.DeletionDigest(s, s).ID() // as before ids covered what is below
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.XDatabases, "orders", key, "once"))
	r := the.pipe(t, "approvals", "--outdated")
	r.has(t, 0, "xdatabases.example.org/orders")
	assert.Contains(t, words(r.out), "xdatabases.example.org/orders "+identity.DeletionDigest(s, s).ID()+" once")
	assert.Contains(t, r.out, "ignored; to approve it again: kubectl annotate -n default xdatabases.example.org orders kausality.io/approve-")
	assert.Contains(t, r.out, "hans@example.com")
	require.NoError(t, the.Annotate(t.Context(), story.Hans, story.XDatabases, "orders", key, nil))
	the.pipe(t, "approvals", "--outdated").has(t, 0, "No unused approvals found.")
}
