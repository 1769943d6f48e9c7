package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

const (
	// clickedDatabases is how many are clicked in turn: the first 20 changes of a message have buttons.
	clickedDatabases = 20
	// clickRound is the time between two rounds in which clicks are worked off.
	clickRound = time.Second
	// mostClick is how long it may take from a click to the open gate, on an idle machine.
	mostClick = 2 * time.Second
)

// TestClicks: from a click on Approve in Slack to the write that opens the gate it takes at most 2 s (p95): where the way back of an
// external change is approved, and where a Composition revision is, which Crossplane carries out.
func TestClicks(t *testing.T) {
	ctx, e := story.StartTest(t, story.Options{Webhook: true, Function: true, WithoutObjects: true, Slack: true})
	y := &clicking{scenario: newScenario(ctx, t, e, "clicks"), opened: map[string]time.Time{}}
	y.fleet()
	y.watchGates()
	t.Run("External", func(t *testing.T) {
		y.t = t
		for _, mr := range y.databases() {
			require.NoError(t, e.Cloud.Change(ctx, mr.GetName(), client.Fields{"size": int64(9)}))
		}
		y.approved(y.held(func(d *v1alpha1.Drift) bool { return d.Spec.Relation == v1alpha1.RelationExternal }))
	})
	t.Run("Composition", func(t *testing.T) {
		y.t = t
		require.NoError(t, e.Compose(ctx, story.Composition{Tier: "gold", Kausality: true}))
		y.approved(y.held(func(d *v1alpha1.Drift) bool { return d.Spec.Relation == v1alpha1.RelationControllerChild }))
	})
}

// clicking is a scenario of clicks.
type clicking struct {
	*scenario

	mu sync.Mutex
	// opened is when the gate of a Database was first seen open since it was clicked.
	opened map[string]time.Time
}

// fleet of databases, behind closed gates.
func (y *clicking) fleet() {
	y.t.Helper()
	name := func(i int) string { return fmt.Sprintf("database-%02d", i) }
	for i := range clickedDatabases {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1alpha1", "kind": "XDatabase",
			"metadata": map[string]any{"name": name(i)}, "spec": map[string]any{"size": int64(10)}}}
		y.until("an XDatabase", func(ctx context.Context) error {
			_, err := y.hans.Resource(story.XDatabases).Namespace(y.ns).Create(ctx, o, metav1.CreateOptions{})
			return err
		})
	}
	for i := range clickedDatabases {
		y.awaitAllSettled(story.XDatabases, name(i))
	}
	y.closed()
}

// databases that the fleet has.
func (y *clicking) databases() []unstructured.Unstructured {
	y.t.Helper()
	list, err := y.admin.Resource(story.Databases).Namespace(y.ns).List(y.ctx, metav1.ListOptions{})
	require.NoError(y.t, err)
	require.Len(y.t, list.Items, clickedDatabases)
	return list.Items
}

// closed gates, of which the provider knows.
func (y *clicking) closed() {
	y.t.Helper()
	for _, mr := range y.databases() {
		y.awaitClosed(story.Databases, mr.GetName())
		y.until("the provider to know the mask", func(ctx context.Context) error {
			o, err := y.admin.Resource(story.Databases).Namespace(y.ns).Get(ctx, mr.GetName(), metav1.GetOptions{})
			if err == nil && story.SyncedGeneration(o) < o.GetGeneration() {
				err = fmt.Errorf("it has observed generation %d of %d", story.SyncedGeneration(o), o.GetGeneration())
			}
			return err
		})
	}
}

// watchGates notes when each gate is first seen open.
func (y *clicking) watchGates() {
	y.t.Helper()
	w, err := y.admin.Resource(story.Databases).Namespace(y.ns).Watch(y.ctx, metav1.ListOptions{})
	require.NoError(y.t, err)
	y.t.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			now := time.Now()
			o, ok := ev.Object.(*unstructured.Unstructured)
			if !ok || gateOf(o).State != v1alpha1.GateOpen || !slices.Contains(story.Policies(o), "Update") {
				continue
			}
			y.mu.Lock()
			if _, known := y.opened[o.GetName()]; !known {
				y.opened[o.GetName()] = now
			}
			y.mu.Unlock()
		}
	}()
}

// held changes, one of each database, once all are reported.
func (y *clicking) held(is func(*v1alpha1.Drift) bool) (all []*v1alpha1.Drift) {
	y.t.Helper()
	y.until("a change of each database to be held", func(ctx context.Context) error {
		all = nil
		list, err := y.admin.Resource(story.Drifts).Namespace(y.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			d := &v1alpha1.Drift{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, d); err != nil {
				return err
			}
			if d.Status.Phase == v1alpha1.DriftDetected && is(d) {
				all = append(all, d)
			}
		}
		if len(all) != clickedDatabases {
			return fmt.Errorf("%d changes are held", len(all))
		}
		return nil
	})
	return all
}

// approved by clicks, one after the other, at all times between two rounds.
func (y *clicking) approved(all []*v1alpha1.Drift) {
	y.t.Helper()
	took := make([]time.Duration, 0, len(all))
	for i, d := range all {
		m, err := y.e.InSlack(y.ctx, d)
		require.NoError(y.t, err)
		name := d.Spec.Child.Name
		y.mu.Lock()
		delete(y.opened, name)
		y.mu.Unlock()
		wait.Pause(y.t, time.Duration(i)*clickRound/clickedDatabases)
		sent := time.Now()
		require.NoError(y.t, y.e.ClickApprove(m))
		acknowledged := time.Since(sent)
		at := y.open(name)
		require.True(y.t, at.After(sent), "the gate was open before the click")
		took = append(took, at.Sub(sent))
		y.t.Logf("%s: acknowledged after %s, open after %s", name, acknowledged.Round(time.Millisecond), at.Sub(sent).Round(time.Millisecond))
	}
	slices.Sort(took)
	quantile := func(q int) time.Duration { return took[(len(took)*q+99)/100-1].Round(time.Millisecond) }
	most := controlplane.Patience(mostClick / 2) // which is twice as long on an idle machine
	y.t.Logf("%d clicks: from the click to the open gate p50 %s, p95 %s, longest %s; at most %s are wanted at p95", len(took), quantile(50), quantile(95),
		quantile(100), most)
	if quantile(95) > most {
		y.t.Errorf("from a click to the open gate it takes %s (p95), at most %s are wanted", quantile(95), most)
	}
	y.closed()
}

// open is when the gate of a Database was seen open.
func (y *clicking) open(name string) (at time.Time) {
	y.t.Helper()
	wait.Often(y.t, "the gate of "+name+" to open", wait.Patience, func() error {
		y.mu.Lock()
		defer y.mu.Unlock()
		var ok bool
		if at, ok = y.opened[name]; !ok {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	return at
}
