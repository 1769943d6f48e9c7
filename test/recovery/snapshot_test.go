package recovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

func etcdDir() string { return filepath.Join(the.Dir(), "etcd") }

// snapshot of etcd, which does not write meanwhile.
func snapshot(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "snapshot")
	etcd := the.Process(parts.Etcd)
	etcd.Signal(syscall.SIGSTOP)
	defer etcd.Signal(syscall.SIGCONT)
	require.NoError(t, os.CopyFS(to, os.DirFS(etcdDir())))
	return to
}

// clients of the API server in the order in which they are started again: Crossplane when the providers have observed.
var clients = []string{parts.KubeControllerManager, "kausality-webhook", "kausality-gate", "provider-cloud"}

// goBack to a snapshot, as its documentation has it: all clients are restarted, Crossplane last.
func goBack(t *testing.T, from string) {
	t.Helper()
	for _, name := range slices.Concat([]string{parts.Crossplane}, clients, []string{parts.KubeAPIServer, parts.Etcd}) {
		the.Process(name).Kill()
	}
	require.NoError(t, os.RemoveAll(etcdDir()))
	require.NoError(t, os.CopyFS(etcdDir(), os.DirFS(from)))
	require.NoError(t, os.Chmod(etcdDir(), 0o700)) //nolint:gosec // A directory, of this user alone.
	require.NoError(t, the.Process(parts.Etcd).Restart())
	require.NoError(t, the.Process(parts.KubeAPIServer).Restart())
	server, err := kubernetes.NewForConfig(the.ConfigAsMaster(story.Hans))
	require.NoError(t, err)
	wait.For(t, "the API server to be back, and to have read roles", patience, func(ctx context.Context) error {
		return server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	for _, name := range clients {
		require.NoError(t, the.Process(name).Restart())
	}
}

// drifted: there is an external drift of both Databases.
func (f *fixture) drifted(ctx context.Context) error {
	list, err := f.of(story.Drifts).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, d := range list.Items {
		relation, _, _ := unstructured.NestedString(d.Object, "spec", "relation")
		phase, _, _ := unstructured.NestedString(d.Object, "status", "phase")
		child, _, _ := unstructured.NestedString(d.Object, "spec", "child", "name")
		open[child] = open[child] || relation == "External" && phase == "Detected"
	}
	if !open[f.mr] || !open[f.lone()] {
		return fmt.Errorf("external drift is open for %v: %s", open, f.dump(ctx))
	}
	return nil
}

// held: the new revision is, and the annotation that approves it.
func (f *fixture) held() (key, value string) {
	f.t.Helper()
	wait.For(f.t, "the new revision to be held", patience, func(ctx context.Context) error {
		mr, err := f.of(story.Databases).Get(ctx, f.mr, metav1.GetOptions{})
		if err != nil {
			return err
		}
		m := command.FindStringSubmatch(mr.GetAnnotations()[v1alpha1.AnnotationKeyHeld])
		if m == nil {
			return fmt.Errorf("nothing is held: %v", mr.GetAnnotations())
		}
		key, value = m[4], m[5]
		return nil
	})
	return key, value
}

// composed: Crossplane, which has just started and listed all composites, has reconciled each.
func (f *fixture) composed() {
	f.t.Helper()
	wait.For(f.t, "Crossplane to reconcile every composite", patience, func(ctx context.Context) error {
		all, err := f.hans.Resource(story.XDatabases).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		m, err := controlplane.ReadMetrics(ctx, the.CrossplaneMetrics())
		if err != nil {
			return err
		}
		n, err := m.Reconciled("composite/xdatabases.example.org")
		if err == nil && n < float64(len(all.Items)) {
			err = fmt.Errorf("%v reconciles of %d composites: %v", n, len(all.Items), m["controller_runtime_reconcile_total"])
		}
		return err
	})
}

// TestSnapshot: after the cluster went back to an earlier state, the cloud does not: what changed there since is external
// drift, an approval that was used since changes nothing there again, and the next change of a user reaches
// the cloud (KR-13-59). It replaces etcd under all other tests, and so runs alone.
func TestSnapshot(t *testing.T) {
	f := newFixture(t, "snapshot")
	f.requests(40)
	f.reaches(40)
	f.settled()
	require.NoError(t, the.Compose(t.Context(), story.Composition{Tier: "silver", Kausality: true}))
	key, value := f.held()
	the.Process(parts.Crossplane).Kill()
	f.annotate(story.XDatabases, composite, map[string]any{key: value})
	before := snapshot(t) // of an approval that nothing has used

	require.NoError(t, the.Process(parts.Crossplane).Restart())
	wait.For(t, "the approval to be used", patience, func(ctx context.Context) error {
		d, err := the.Cloud.Get(ctx, f.mr)
		if err == nil && d.Tags["tier"] != "silver" {
			err = fmt.Errorf("the tier is %s", d.Tags["tier"])
		}
		return err
	})
	f.settled()
	f.requests(50)
	f.reaches(50)
	f.settled()
	gone := f.ns + "-gone"
	f.create(story.Databases, "Database", gone, map[string]any{"forProvider": map[string]any{"size": int64(1)}})
	wait.For(t, "a Database to be created", patience, func(ctx context.Context) error { _, err := the.Cloud.Get(ctx, gone); return err })
	var err error
	f.from, err = the.Cloud.LastSeq(t.Context())
	require.NoError(t, err)

	goBack(t, before)
	wait.For(t, "the external drift to be reported", patience, f.drifted)
	require.NoError(t, the.Process(parts.Crossplane).Restart())
	f.composed()
	require.Empty(t, f.writes(), "%s", f.dump(t.Context()))
	_, err = the.Cloud.Get(t.Context(), gone)
	require.NoError(t, err, "what was created since is left outside")
	f.refusedDeletion(f.lone())
	wait.For(t, "the approval to be used again, for what is outside already", patience, func(ctx context.Context) error {
		mr, err := f.of(story.Databases).Get(ctx, f.mr, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if tier, _, _ := unstructured.NestedString(mr.Object, "spec", "forProvider", "tags", "tier"); tier != "silver" {
			return fmt.Errorf("the tier is %s: %s", tier, f.dump(ctx))
		}
		return nil
	})
	require.Empty(t, f.writes())

	f.requests(60)
	f.reaches(60)
	f.settled()
	require.Len(t, f.writes(), 2)
}
