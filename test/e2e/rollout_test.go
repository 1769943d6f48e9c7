package e2e

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/e2e/story"
)

var waves = flag.Int("waves", 0, "composites of TestWaves; none by default")

// shard is composed of a Database, whose size depends on its class.
var shard = story.Definition{Group: "example.org", Version: "v1alpha1", Kind: "XShard", Plural: "xshards", Spec: "{class: {type: string}}"}

// shardComposition with the size of each class.
func shardComposition(small, large int) []byte {
	return shard.Composition("shards", fmt.Sprintf(`
      - name: database
        base: {apiVersion: cloud.example.org/v1alpha1, kind: Database, spec: {forProvider: {size: 1}}}
        patches:
        - type: FromCompositeFieldPath
          fromFieldPath: spec.class
          toFieldPath: spec.forProvider.size
          transforms:
          - {type: map, map: {small: "%d", large: "%d"}}
          - {type: convert, convert: {toType: int64}}`, small, large), story.StepKausalityShortGrace, story.StepAutoReady)
}

// largeShard is the one shard of the other class. It is in the second wave.
const largeShard = "shard-03"

// TestWaves: a Composition revision that the API server refuses for one object of the second wave gets no further than that wave; the next
// revision reaches all objects, with one write to the cloud each (KR-14-53, KR-14-54, KR-14-56).
func TestWaves(t *testing.T) {
	if *waves == 0 {
		t.Skip("only with -waves")
	}
	ctx, e := story.StartTest(t, story.Options{Webhook: true, Function: true, WithoutObjects: true, SteadyBreaker: true,
		ProviderArgs: []string{"--max-requeue-delay=1s"}})
	y := &waving{scenario: newScenario(ctx, t, e, "waves")}
	require.NoError(t, e.Apply(ctx, shard.XRD()))
	require.NoError(t, e.Apply(ctx, shardComposition(10, 10)))
	y.fleet(*waves)

	// The revision for which the size of one class is 0, less than the schema allows.
	require.NoError(t, e.Apply(ctx, shardComposition(20, 0)))
	bad := y.rollout("bad")
	stopped := y.is("bad", "stopped", func(s *v1alpha1.RolloutStatus) bool { return s.Phase == v1alpha1.RolloutStopped })
	t.Logf("%s; %v", stopped.Message, stopped.Unhealthy)
	require.EqualValues(t, 2, stopped.Wave)
	require.Contains(t, stopped.Message, "1 of ")
	require.Len(t, stopped.Unhealthy, 1)
	require.Equal(t, "XShard waves/"+largeShard, stopped.Unhealthy[0].Object)
	let := int(stopped.Waves[0].Total + stopped.Waves[1].Total)
	sizes := y.sizes()
	require.Equal(t, map[int64]int{10: *waves - let + 1, 20: let - 1}, sizes, "of %d objects in two waves", let)

	since, err := e.Cloud.LastSeq(ctx)
	require.NoError(t, err)
	require.NoError(t, e.Apply(ctx, shardComposition(30, 30)))
	began := time.Now()
	good := y.rollout("good")
	require.NotEqual(t, bad, good)
	done := y.is("good", "completed", func(s *v1alpha1.RolloutStatus) bool { return s.Phase == v1alpha1.RolloutCompleted })
	require.EqualValues(t, *waves, done.Done)
	require.Equal(t, map[int64]int{30: *waves}, y.sizes())
	written := map[string]int{}
	entries, err := e.Cloud.Writes(ctx, since)
	require.NoError(t, err)
	for _, w := range entries {
		written[w.Path]++
	}
	require.Len(t, written, *waves)
	for path, n := range written {
		require.Equal(t, 1, n, "writes to %s", path)
	}
	t.Logf("%d objects in %s: %s", *waves, time.Since(began).Round(time.Second), done.Message)
}

// waving is a scenario with many composites.
type waving struct{ *scenario }

// fleet of shards that have settled behind closed gates.
func (y *waving) fleet(n int) {
	y.t.Helper()
	began := time.Now()
	name := func(i int) string { return fmt.Sprintf("shard-%02d", i) }
	for i := range n {
		class := "small"
		if name(i) == largeShard {
			class = "large"
		}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1alpha1", "kind": shard.Kind,
			"metadata": map[string]any{"name": name(i)}, "spec": map[string]any{"class": class}}}
		y.until("a shard", func(ctx context.Context) error {
			_, err := y.hans.Resource(shard.Resource()).Namespace(y.ns).Create(ctx, o, metav1.CreateOptions{})
			return err
		})
	}
	for i := range n {
		y.awaitAllSettled(shard.Resource(), name(i))
	}
	list, err := y.admin.Resource(story.Databases).Namespace(y.ns).List(y.ctx, metav1.ListOptions{})
	require.NoError(y.t, err)
	require.Len(y.t, list.Items, n)
	for _, o := range list.Items {
		y.awaitClosed(story.Databases, o.GetName())
	}
	y.t.Logf("%d composites settled after %s", n, time.Since(began).Round(time.Second))
}

// rollout of the revision whose changes are held, begun and approved by hans. It returns the id of its plan.
func (y *waving) rollout(name string) string {
	y.t.Helper()
	revision := ""
	y.until("all changes to be held", func(ctx context.Context) error {
		list, err := y.admin.Resource(v1alpha1.GroupVersion.WithResource("drifts")).Namespace(y.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		n := map[string]int{}
		for i := range list.Items {
			d := &v1alpha1.Drift{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, d); err != nil {
				return err
			}
			if d.Status.Phase == v1alpha1.DriftDetected && len(d.Spec.Causes) == 1 && d.Spec.Causes[0].Kind == v1alpha1.CauseComposition {
				n[d.Spec.Causes[0].Name]++
			}
		}
		for r, held := range n {
			if held == *waves {
				revision = r
				return nil
			}
		}
		return fmt.Errorf("changes by revision: %v", n)
	})
	of := y.hans.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)).Namespace(y.ns)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindRollout,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"cause": map[string]any{"compositionRevision": revision},
			"advance": map[string]any{"after": "30s"}, "waves": []any{map[string]any{"count": int64(1)}, map[string]any{"percent": int64(10)},
				map[string]any{"percent": int64(50)}, map[string]any{"percent": int64(100)}}}}}
	_, err := of.Create(y.ctx, o, metav1.CreateOptions{})
	require.NoError(y.t, err)
	planned := y.is(name, "planned", func(s *v1alpha1.RolloutStatus) bool { return s.Plan != nil && int(s.Plan.Objects) == *waves })
	vote := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"once"}}}`, v1alpha1.AnnotationKeyApprovePrefix+planned.Plan.ID)
	_, err = of.Patch(y.ctx, name, types.MergePatchType, vote, metav1.PatchOptions{})
	require.NoError(y.t, err)
	return planned.Plan.ID
}

// is waits until a Rollout is as is wants.
func (y *waving) is(name, what string, is func(*v1alpha1.RolloutStatus) bool) *v1alpha1.RolloutStatus {
	y.t.Helper()
	o := &v1alpha1.Rollout{}
	require.NoError(y.t, controlplane.Eventually(y.ctx, "Rollout "+name+" to be "+what, 10*time.Minute, func(ctx context.Context) error {
		u, err := y.admin.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)).Namespace(y.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o = &v1alpha1.Rollout{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil || !is(&o.Status) {
			return fmt.Errorf("it is %s: %s: %w", o.Status.Phase, o.Status.Message, err)
		}
		return nil
	}))
	return &o.Status
}

// sizes of the databases in the cloud, with how many have each.
func (y *waving) sizes() map[int64]int {
	y.t.Helper()
	list, err := y.admin.Resource(story.Databases).Namespace(y.ns).List(y.ctx, metav1.ListOptions{})
	require.NoError(y.t, err)
	out := map[int64]int{}
	for _, o := range list.Items {
		if !strings.HasPrefix(o.GetName(), "shard-") {
			continue
		}
		d, err := y.e.Cloud.Get(y.ctx, o.GetName())
		require.NoError(y.t, err)
		out[d.Size]++
	}
	return out
}
