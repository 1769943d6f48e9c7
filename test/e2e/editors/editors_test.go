package editors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

// role of the RBAC manager for the editors of the story's composites.
const role = "crossplane:composite:xdatabases.example.org:aggregate-to-edit"

// TestEditors: who may do with composites what Crossplane's RBAC manager lets their editors do cannot approve, and is no controller by a
// status that it may write (KR-02-13, KR-13-62).
func TestEditors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if base := os.Getenv("KAUSALITY_E2E_DIR"); base != "" {
		dir = base + "/" + t.Name()
	}
	e, err := story.Start(ctx, story.Options{Dir: dir, Out: os.Stdout, Kausality: os.Getenv("KAUSALITY_BINARY"), Webhook: true, WithoutObjects: true,
		WebhookArgs: []string{"--approver-rbac=true"}})
	t.Cleanup(e.Stop)
	require.NoError(t, err)
	api, err := kubernetes.NewForConfig(e.Config())
	require.NoError(t, err)
	writeRole(ctx, t, e)
	createComposite(ctx, t, e)
	bindEditors(ctx, t, api)

	as := func(user string) dynamic.ResourceInterface {
		c, err := dynamic.NewForConfig(e.ConfigAs(user))
		require.NoError(t, err)
		return c.Resource(story.XDatabases).Namespace("default")
	}
	patch := func(user, manager string, value map[string]any, subresources ...string) (*unstructured.Unstructured, error) {
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		return as(user).Patch(ctx, "edited", types.MergePatchType, raw, metav1.PatchOptions{FieldManager: manager}, subresources...)
	}
	annotated := func(key, value string) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
	}
	for key, value := range map[string]string{v1alpha1.AnnotationKeyFreeze: "true", v1alpha1.AnnotationKeyMode: "log",
		v1alpha1.AnnotationKeyApprovePrefix + "0123456789abcdef": "once"} {
		_, err = patch("edna", "kubectl-annotate", annotated(key, value))
		require.True(t, kerrors.IsForbidden(err), "%s: %v", key, err)
		assert.Contains(t, err.Error(), "subresource approval")
	}
	_, err = patch("amy", "kubectl-annotate", annotated(v1alpha1.AnnotationKeySnooze, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	require.NoError(t, err, "the verb on the subresource")

	// A ServiceAccount with that role writes a status under Crossplane's field manager, and then what Crossplane alone may write without an intent.
	const ci, composite = "system:serviceaccount:default:ci", "apiextensions.crossplane.io/composite"
	_, err = patch(ci, composite, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ours",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}}}}, "status")
	require.NoError(t, err)
	changed, err := patch(ci, composite, map[string]any{"spec": map[string]any{"crossplane": map[string]any{"compositionUpdatePolicy": "Manual"}}})
	require.NoError(t, err)
	assert.Contains(t, changed.GetAnnotations()[v1alpha1.AnnotationKeyTrace], ci, "it is an intent in its own name")
	_, err = patch("amy", "kubectl-annotate", annotated(v1alpha1.AnnotationKeyFreeze, "true"))
	require.NoError(t, err)
	wait.For(t, "the webhook to log that it reviewed the status, and learnt no controller from it", 30*time.Second, func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(e.Dir(), "logs", "kausality-webhook.log"))
		if err == nil && !strings.Contains(string(log), `"user":"`+ci+`"`) {
			err = errors.New("it is not in the log")
		}
		return err
	})
	o, err := as("amy").Get(ctx, "edited", metav1.GetOptions{})
	require.NoError(t, err)
	assert.NotContains(t, o.GetAnnotations()[v1alpha1.AnnotationKeyControllers], ",", "one controller is recorded: Crossplane")
}

// writeRole runs Crossplane's RBAC manager until it has written the role of editors.
func writeRole(ctx context.Context, t *testing.T, e *story.Env) {
	t.Helper()
	written, err := e.EditorsRole(ctx, role)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(written.Rules), "xdatabases/status")
	require.Equal(t, []string{"*"}, written.Rules[0].Verbs, "which contain approve")
}

// createComposite creates edited as hans, and waits until it has settled.
func createComposite(ctx context.Context, t *testing.T, e *story.Env) {
	t.Helper()
	hans, err := e.As(story.Hans)
	require.NoError(t, err)
	xr := &unstructured.Unstructured{Object: map[string]any{"apiVersion": story.XDatabases.GroupVersion().String(), "kind": "XDatabase",
		"metadata": map[string]any{"name": "edited", "namespace": "default"}, "spec": map[string]any{"size": int64(1)}}}
	_, err = hans.Resource(story.XDatabases).Namespace("default").Create(ctx, xr, metav1.CreateOptions{})
	require.NoError(t, err)
	wait.For(t, "the composite to settle", 2*time.Minute, func(ctx context.Context) error {
		o, err := hans.Resource(story.XDatabases).Namespace("default").Get(ctx, "edited", metav1.GetOptions{})
		if err == nil && o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "" {
			err = fmt.Errorf("it has not settled")
		}
		return err
	})
}

// bindEditors lets edna, amy and a ServiceAccount edit composites, and amy approve.
func bindEditors(ctx context.Context, t *testing.T, api kubernetes.Interface) {
	t.Helper()
	bind := func(name, role string, subject rbacv1.Subject) {
		_, err := api.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	person := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
	}
	bind("edna-edits", role, person("edna"))
	bind("ci-edits", role, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "ci"})
	bind("amy-edits", role, person("amy"))
	_, err := api.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "approves"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{story.XDatabases.Group}, Resources: []string{"xdatabases/approval"}, Verbs: []string{"approve"}}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	bind("amy-approves", "approves", person("amy"))
}
