package recovery

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

// backup of the Namespace: objects as Velero restores them, by resource.
func (f *fixture) backup() map[schema.GroupVersionResource][]unstructured.Unstructured {
	f.t.Helper()
	out := map[schema.GroupVersionResource][]unstructured.Unstructured{}
	for _, r := range []schema.GroupVersionResource{story.XDatabases, story.Databases} {
		list, err := f.of(r).List(f.t.Context(), metav1.ListOptions{})
		require.NoError(f.t, err)
		out[r] = list.Items
	}
	return out
}

// disaster: the objects are gone, what is outside is not.
func (f *fixture) disaster() {
	f.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{the.EtcdURL()}})
	require.NoError(f.t, err)
	defer c.Close()                                                                      //nolint:errcheck // Nothing is lost.
	for _, r := range []schema.GroupVersionResource{story.Databases, story.XDatabases} { // what is below first, so that nothing is to be collected
		_, err := c.Delete(f.t.Context(), "/registry/"+r.Group+"/"+r.Resource+"/"+f.ns+"/", clientv3.WithPrefix())
		require.NoError(f.t, err)
	}
	wait.For(f.t, "everything to be gone", patience, func(ctx context.Context) error {
		for r, name := range map[schema.GroupVersionResource]string{story.XDatabases: composite, story.Databases: f.lone()} {
			if _, err := f.of(r).Get(ctx, name, metav1.GetOptions{}); !kerrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", name, errorOr(err, "it is still there"))
			}
		}
		return nil
	})
	require.Empty(f.t, f.writes())
}

// how a backup is restored.
type how struct {
	// order of the resources.
	order []schema.GroupVersionResource
	// status: it is restored, too.
	status bool
}

// restore what Velero keeps of the metadata: names, labels, annotations and finalizers.
func (f *fixture) restore(from map[schema.GroupVersionResource][]unstructured.Unstructured, how how) {
	f.t.Helper()
	c, err := as(velero)
	require.NoError(f.t, err)
	for _, r := range how.order {
		for _, stored := range from[r] {
			o := stored.DeepCopy()
			for _, key := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences", "managedFields"} {
				unstructured.RemoveNestedField(o.Object, "metadata", key)
			}
			status := o.Object["status"]
			delete(o.Object, "status")
			made, err := c.Resource(r).Namespace(f.ns).Create(f.t.Context(), o, metav1.CreateOptions{FieldManager: "velero-server"})
			if kerrors.IsAlreadyExists(err) {
				continue // Crossplane made it; Velero leaves what exists
			}
			require.NoError(f.t, err, "everything is admitted")
			if !how.status {
				continue
			}
			made.Object["status"] = status
			_, err = c.Resource(r).Namespace(f.ns).UpdateStatus(f.t.Context(), made, metav1.UpdateOptions{FieldManager: "velero-server"})
			if !kerrors.IsConflict(err) {
				require.NoError(f.t, err)
			}
		}
	}
}

// TestBackup: everything of a backup is admitted, nothing is written to the cloud for it, approvals that were given to the
// objects that are gone do not count, and the next change of a user reaches the cloud (KR-13-58).
func TestBackup(t *testing.T) {
	down := []schema.GroupVersionResource{story.Databases, story.XDatabases}
	for name, how := range map[string]how{
		"managed-first": {order: down}, "with-status": {order: down, status: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, name)
			key, value := f.refusedDeletion(f.lone())
			f.annotate(story.Databases, f.lone(), map[string]any{key: value})
			saved := f.backup()
			f.disaster()
			require.NoError(t, the.Cloud.Change(t.Context(), f.lone(), client.Fields{"tags": map[string]any{"changed": "since"}}))
			f.restore(saved, how)
			f.settled()
			wait.Pause(t, 3*time.Second) // the providers poll every second
			require.Empty(t, f.writes(), "%s", f.dump(t.Context()))
			f.refusedDeletion(f.lone())
			f.refusedDeletion(f.mr)

			f.requests(30)
			f.reaches(30)
			f.settled()
			writes := f.writes()
			require.Len(t, writes, 2, "%v", writes)
			slices.Sort(writes)
		})
	}
}

// TestBackupCompositesFirst: composites may be restored first while Crossplane does not run. It would compose what they reference and
// does not exist (KR-13-58).
func TestBackupCompositesFirst(t *testing.T) {
	f := newFixture(t, "composites-first")
	saved := f.backup()
	f.disaster()
	the.Process(parts.Crossplane).Kill()
	f.restore(saved, how{order: []schema.GroupVersionResource{story.XDatabases, story.Databases}})
	require.NoError(t, the.Process(parts.Crossplane).Restart())
	f.settled()
	require.Empty(t, f.writes(), "%s", f.dump(t.Context()))
	f.requests(30)
	f.reaches(30)
}

// age what is in a backup by an hour.
func age(from map[schema.GroupVersionResource][]unstructured.Unstructured) {
	for _, list := range from {
		for i := range list {
			a := list[i].GetAnnotations()
			a[v1alpha1.AnnotationKeyTrace] = times.ReplaceAllStringFunc(a[v1alpha1.AnnotationKeyTrace], func(text string) string {
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					return text
				}
				return at.Add(-time.Hour).Format(time.RFC3339)
			})
			list[i].SetAnnotations(a)
		}
	}
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

var hooks = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}

// failurePolicy of all webhooks.
func (f *fixture) failurePolicy(value string) {
	f.t.Helper()
	wait.For(f.t, "the webhook configuration to be written", patience, func(ctx context.Context) error {
		o, err := f.hans.Resource(hooks).Get(ctx, "kausality", metav1.GetOptions{})
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, w := range list {
			if m := w.(map[string]any); m["name"] == "admission.kausality.io" {
				m["failurePolicy"] = value
			}
		}
		o.Object["webhooks"] = list
		_, err = f.hans.Resource(hooks).Update(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// TestBackupWithoutWebhook: what was stored as it is in the backup, since no webhook was called, counts as little (KR-13-58).
func TestBackupWithoutWebhook(t *testing.T) {
	f := newFixture(t, "without-webhook")
	key, value := f.refusedDeletion(f.lone())
	f.annotate(story.Databases, f.lone(), map[string]any{key: value})
	saved := f.backup()
	age(saved)
	f.disaster()
	require.NoError(t, the.Cloud.Change(t.Context(), f.lone(), client.Fields{"tags": map[string]any{"changed": "since"}}))

	f.failurePolicy("Ignore")
	the.Process("kausality-webhook").Kill()
	wait.For(t, "the API server to do without the webhook", patience, func(ctx context.Context) error {
		probe := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"forProvider": map[string]any{"size": int64(1)}}}}
		probe.SetGroupVersionKind(story.Databases.GroupVersion().WithKind("Database"))
		probe.SetName(f.ns + "-probe")
		_, err := f.of(story.Databases).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	f.restore(saved, how{order: []schema.GroupVersionResource{story.Databases, story.XDatabases}})
	require.NoError(t, the.Process("kausality-webhook").Restart())
	f.failurePolicy("Fail")
	f.settled()
	wait.Pause(t, 3*time.Second) // the providers poll every second
	require.Empty(t, f.writes(), "%s", f.dump(t.Context()))

	f.requests(30)
	f.reaches(30)
	f.settled()
	f.refusedDeletion(f.lone())
	f.refusedDeletion(f.mr)
	require.Len(t, f.writes(), 2)
}
