package kro

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/kro/graphs"
)

// herd is a graph with one child.
const herd = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: herd}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Herd
    spec: {message: string}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {message: "${schema.spec.message}", tier: silver}
`

const (
	// many instances of a graph.
	many = 100
	// observed is for how long they are observed.
	observed = 30 * time.Second
)

// TestHundred has what it costs to hold an edit of a graph with 100 instances: of updates, which are put back, at most 5 % of a core,
// and no object is written; of creations, which kro repeats every three seconds, at most 25 % (KR-18-06).
func TestHundred(t *testing.T) {
	ns := namespace(t, "hundred")
	for i := range many {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Herd", "spec": map[string]any{"message": "hello"}}}
		o.SetName(fmt.Sprintf("herd-%02d", i))
		_, err := as(t, hans).Resource(herds).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	await(t, "all instances to settle", func(ctx context.Context) (int, error) {
		return count(ctx, t, herds, ns, func(o *unstructured.Unstructured) bool {
			return o.GetAnnotations()[v1alpha1.AnnotationKeySettledGeneration] == "1"
		})
	})

	tend(t, strings.Replace(herd, "silver", "gold", 1))
	t.Cleanup(func() { tend(t, herd) })
	open(t, ns, "UPDATE")
	active := func(o *unstructured.Unstructured) bool { return graphs.State(o, "ACTIVE") == nil }
	await(t, "kro to take what is put back for a success", func(ctx context.Context) (int, error) { return count(ctx, t, herds, ns, active) })
	was, idle := versions(t, ns), spent(t)
	wait.Pause(t, observed)
	share := (spent(t) - idle).Seconds() / observed.Seconds()
	t.Logf("%d held updates: %.1f %% of a core", many, 100*share)
	assert.Equal(t, was, versions(t, ns), "resourceVersions")
	assert.LessOrEqual(t, share, 0.05, "of a core")

	const added = `
  - id: added
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-added"}
`
	tend(t, strings.TrimRight(herd, "\n")+added)
	open(t, ns, "CREATE")
	idle = spent(t)
	wait.Pause(t, observed)
	share = (spent(t) - idle).Seconds() / observed.Seconds()
	t.Logf("%d refused creations every three seconds: %.1f %% of a core", many, 100*share)
	assert.LessOrEqual(t, share, 0.25, "of a core")
	tend(t, herd)
	await(t, "kro to have no failed instance", func(ctx context.Context) (int, error) {
		return count(ctx, t, herds, ns, active)
	})
}

// tend writes the graph.
func tend(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, the.Write(context.WithoutCancel(t.Context()), []byte(text))) // it is called after the test
}

// open waits until a Drift about an operation is open for each instance.
func open(t *testing.T, ns, operation string) {
	t.Helper()
	await(t, "Drifts of "+operation, func(ctx context.Context) (int, error) {
		return count(ctx, t, graphs.Drifts, ns, func(o *unstructured.Unstructured) bool {
			is, _, _ := unstructured.NestedString(o.Object, "spec", "operation")
			separated, _, _ := unstructured.NestedBool(o.Object, "status", "separated")
			return is == operation && separated == (operation == "UPDATE")
		})
	})
}

// await as many of something as there are instances.
func await(t *testing.T, what string, f func(context.Context) (int, error)) {
	t.Helper()
	wait.For(t, what, 2*time.Minute, func(ctx context.Context) error {
		n, err := f(ctx)
		if err == nil && n != many {
			err = fmt.Errorf("%d of %d", n, many)
		}
		return err
	})
}

func count(ctx context.Context, t *testing.T, gvr schema.GroupVersionResource, ns string, f func(*unstructured.Unstructured) bool) (n int, err error) {
	list, err := as(t, hans).Resource(gvr).Namespace(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	for i := range list.Items {
		if f(&list.Items[i]) {
			n++
		}
	}
	return n, nil
}

// versions of the instances and their children, by kind and name.
func versions(t *testing.T, ns string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, gvr := range []schema.GroupVersionResource{herds, configMaps} {
		list, err := as(t, hans).Resource(gvr).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, o := range list.Items {
			if strings.HasPrefix(o.GetName(), "herd-") {
				out[gvr.Resource+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	require.Len(t, out, 2*many)
	return out
}

// spent is the processor time of webhook and gate.
func spent(t *testing.T) (sum time.Duration) {
	t.Helper()
	for _, p := range []*controlplane.Process{the.Webhook, the.Gate} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
		require.NoError(t, err)
		_, after, _ := strings.Cut(string(raw), ") ")
		for _, ticks := range strings.Fields(after)[11:13] { // utime and stime, in hundredths of a second
			n, err := strconv.Atoi(ticks)
			require.NoError(t, err)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
