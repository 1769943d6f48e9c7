package gate

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/hack/campaign"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/figures"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
)

var (
	randomSeeds = flag.Uint64("random.seeds", 5, "how many random runs on the real parts")
	randomSeed  = flag.Uint64("random.seed", 0, "run this seed alone")

	randomResults = campaign.Register()
)

const (
	// together is how many seeds run at once, each in its Namespace; they share
	// what fails and restarts.
	together = 5
	steps    = 25
)

// TestRandom interleaves users, Crossplane, changes in the cloud, failing calls
// and restarts of all components, by seed. verify has the invariants.
func TestRandom(t *testing.T) {
	first, last := uint64(1), *randomSeeds
	if *randomSeed > 0 {
		first, last = *randomSeed, *randomSeed
	}
	record, err := randomResults.Open(slices.Concat(campaign.Product, campaign.Installed, []string{"test/gate"})...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, record.Close()) })
	var due []uint64
	for seed := first; seed <= last; seed++ {
		if !record.Passed(randomItem(seed)) {
			due = append(due, seed)
		}
	}
	for seeds := range slices.Chunk(due, together) {
		played(t, record, seeds)
		if t.Failed() {
			return // what comes after may follow from it
		}
	}
}

// played seeds, all at once, with a result of each: what is wrong may be of any of them, and may end the test.
func played(t *testing.T, record *campaign.Record, seeds []uint64) {
	t.Helper()
	began, done, measured := time.Now(), false, map[string]string{}
	defer func() {
		for _, seed := range seeds {
			if err := record.Add(campaign.Result{Item: randomItem(seed), Passed: done && !t.Failed(), Took: time.Since(began), Figures: measured}); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, seed := range seeds {
		newRandom(t, seed)
	}
	var wg sync.WaitGroup
	for _, r := range started {
		wg.Go(r.play)
	}
	wg.Wait()
	require.NoError(t, the.cloud.FailNext(t.Context(), 0, 0))
	require.NoError(t, the.cloud.SetAsync(t.Context(), false, 0))
	_, err := the.cloud.Finish(t.Context(), "", "")
	require.NoError(t, err)
	for _, p := range []*part{the.webhook, the.gate, the.provider} {
		require.NoError(t, p.revive(t.Context()))
	}
	for _, r := range started {
		r.verify()
	}
	started = nil
	for _, p := range []*part{the.webhook, the.gate} {
		_, err := figures.Memory(measured, p.Name(), p.Process)
		require.NoError(t, err)
	}
	_, err = figures.Decisions(t.Context(), measured, the.metrics)
	require.NoError(t, err)
	done = true
}

func randomItem(seed uint64) string { return fmt.Sprintf("seed %d", seed) }

// started runs of this round.
var started []*random

// random run of a seed.
type random struct {
	*fixture
	seed    uint64
	rng     *rand.Rand
	history record
	alone   string
	mr      string
	as      composeAs
	log     []string
	orphans map[string]bool
}

func newRandom(t *testing.T, seed uint64) {
	t.Helper()
	r := &random{fixture: newFixture(t, fmt.Sprintf("random-%d", seed)), seed: seed, rng: rand.New(rand.NewPCG(seed, 7)),
		as: composeAs{tier: "bronze"}, orphans: map[string]bool{}}
	r.history = r.record()
	r.xr("store", 10)
	r.mr, r.alone = r.mrName("store"), r.lone("alone", 5)
	started = append(started, r)
}

func (r *random) note(format string, args ...any) {
	r.log = append(r.log, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// play the steps. Refusals and failures are expected.
func (r *random) play() {
	for range steps {
		r.step()
		if r.chance(2) {
			_ = r.compose(r.t.Context(), "store", r.as)
		}
		pause := time.NewTimer(time.Duration(r.rng.IntN(400)) * time.Millisecond)
		select { // the pace of the run; nothing is awaited here
		case <-pause.C:
		case <-r.t.Context().Done():
			return
		}
	}
}

func (r *random) chance(oneIn int) bool { return r.rng.IntN(oneIn) == 0 }

func (r *random) target() string { return []string{r.mr, r.alone}[r.rng.IntN(2)] }

func (r *random) step() {
	ctx, mr, size := r.t.Context(), r.target(), r.rng.IntN(9)+1
	switch n := r.rng.IntN(100); {
	case n < 12:
		r.try("size of the XR", func() error { return r.merge(xstores, "store", fmt.Sprintf(`{"spec":{"size":%d}}`, size)) })
	case n < 22:
		r.try("size of "+mr, func() error { return r.merge(databases, mr, fmt.Sprintf(`{"spec":{"forProvider":{"size":%d}}}`, size)) })
	case n < 28:
		r.as.tier = []string{"bronze", "silver", "gold"}[r.rng.IntN(3)]
		r.note("the Composition sets tier %s", r.as.tier)
	case n < 42:
		r.try("external change of "+mr, func() error { return the.cloud.Change(ctx, mr, client.Fields{"size": 100 + size}) })
	case n < 44:
		r.try("external loss of "+mr, func() error { return the.cloud.Lose(ctx, mr) })
	case n < 64:
		r.approve()
	case n < 68:
		r.try("any approval", func() error {
			return r.merge(databases, mr, `{"metadata":{"annotations":{"kausality.io/approvals":"[{\"kind\":\"*\",\"name\":\"*\",`+
				`\"relation\":\"External\",\"verbs\":[\"*\"]}]"}}}`)
		})
	case n < 72:
		r.try("freeze", func() error {
			return r.merge(xstores, "store", fmt.Sprintf(`{"metadata":{"annotations":{"kausality.io/freeze":%q}}}`, []string{"true", "false", "false"}[r.rng.IntN(3)]))
		})
	case n < 77:
		r.try("delete "+mr, func() error { return r.of(r.hans, databases).Delete(ctx, mr, metav1.DeleteOptions{}) })
	case n < 79:
		r.try("delete the XR", func() error { return r.of(r.hans, xstores).Delete(ctx, "store", metav1.DeleteOptions{}) })
	case n < 80:
		r.orphans[mr] = true
		r.try("may orphan "+mr, func() error {
			return r.merge(databases, mr, `{"metadata":{"annotations":{"kausality.io/deletion":"orphan"}}}`)
		})
	default:
		r.accident()
	}
}

func (r *random) merge(g metav1GVR, name, body string) error {
	_, err := r.of(r.hans, g).Patch(r.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	return err
}

func (r *random) try(what string, f func() error) {
	err := f()
	text := "done"
	if err != nil {
		text = strings.SplitN(err.Error(), "\n", 2)[0]
	}
	r.note("%s: %.160s", what, text)
}

// approve one of the differences that were reported.
func (r *random) approve() {
	list, err := r.of(r.hans, drifts).List(r.t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return
	}
	d := list.Items[r.rng.IntN(len(list.Items))]
	text, _, _ := unstructured.NestedString(d.Object, "spec", "suggestedApproval")
	m := command.FindStringSubmatch(text)
	if m == nil {
		return
	}
	r.try("approve "+text, func() error {
		g := map[string]metav1GVR{"xstores.example.org": xstores, "databases.cloud.example.org": databases}[m[2]]
		return r.merge(g, m[3], fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, m[4], m[5]))
	})
}

// mishap: one at a time of all seeds.
var mishap sync.Mutex

func (r *random) accident() {
	mishap.Lock()
	defer mishap.Unlock()
	ctx := r.t.Context()
	switch n := r.rng.IntN(100); {
	case n < 35:
		r.try("the cloud fails", func() error { return the.cloud.FailNext(ctx, 1+r.rng.IntN(4), []int{500, 429, 409}[r.rng.IntN(3)]) })
	case n < 50:
		r.try("the cloud takes its time", func() error { return the.cloud.SetAsync(ctx, r.chance(2), 500*time.Millisecond) })
	case n < 92:
		p := []*part{the.gate, the.webhook, the.provider}[r.rng.IntN(3)]
		r.try("kill "+p.Name(), func() error { p.Kill(); return p.Restart() })
		if p == the.webhook {
			_ = p.revive(ctx)
		}
	default:
		r.try("restart the API server", func() error { return the.Process(parts.KubeAPIServer).Restart() })
		for _, p := range []*part{the.webhook, the.gate, the.provider} {
			_ = p.revive(ctx)
		}
	}
}

// verify the invariants, once all components run again and no call fails.
func (r *random) verify() {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("seed %d:\n%s", r.seed, strings.Join(r.log, "\n"))
		}
	}()
	for _, mr := range []string{r.mr, r.alone} {
		wait.For(r.t, fmt.Sprintf("seed %d: the gate of %s to close again", r.seed, mr), 3*deadline, func(ctx context.Context) error {
			_ = r.compose(ctx, "store", r.as)
			list, err := r.of(r.hans, databases).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + mr})
			if err != nil || len(list.Items) == 0 || list.Items[0].GetDeletionTimestamp() != nil {
				return err
			}
			if g := gateOf(&list.Items[0]); g.State != v1alpha1.GateClosed {
				return fmt.Errorf("gate %+v, status %v", g, list.Items[0].Object["status"])
			}
			return nil
		})
		r.notOrphaned(mr)
		xr := map[string]string{r.mr: "store"}[mr]
		for _, wrong := range append(r.history.check(r.t, mr), r.history.openings(r.t, mr, xr)...) {
			r.t.Errorf("seed %d: %s: %s", r.seed, mr, wrong)
		}
	}
}

// notOrphaned: a database in the cloud has its object, unless orphaning was
// requested.
func (r *random) notOrphaned(mr string) {
	r.t.Helper()
	if !r.inCloud(mr) || r.orphans[mr] {
		return
	}
	list, err := r.of(r.hans, databases).List(r.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + mr})
	require.NoError(r.t, err)
	if len(list.Items) == 0 {
		r.t.Errorf("seed %d: %s is left behind in the cloud", r.seed, mr)
	}
}
