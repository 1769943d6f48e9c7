package adversary

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/hack/campaign"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

var (
	adversarySeeds = flag.Uint64("adversary.seeds", 4, "how many seeds to play")
	adversarySeed  = flag.Uint64("adversary.seed", 0, "play this seed alone")
	adversaryFirst = flag.Uint64("adversary.first", 1, "begin with this seed")
)

const (
	// together is how many seeds are played at once, each in its Namespaces.
	together = 8
	// steps of a seed.
	steps = 40
	// calm is how long the controllers have for what an adversary started.
	calm = 4 * time.Second
)

// results of what was played.
var results = campaign.Register()

// within is how long a round may take: a seed that hangs ends it, and the rounds before are recorded.
const within = 10 * time.Minute

// TestAdversary plays users with few rights, by seed (KR-13-03, KR-13-04).
func TestAdversary(t *testing.T) {
	first, last := *adversaryFirst, *adversarySeeds
	if *adversarySeed > 0 {
		first, last = *adversarySeed, *adversarySeed
	}
	require.LessOrEqual(t, first, last, "-adversary.first (FIRST) must not be after -adversary.seeds (SEEDS), which is the last seed")
	record, err := results.Open(slices.Concat(campaign.Product, campaign.Installed, []string{"test/adversary"})...)
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			the.Dump(context.WithoutCancel(t.Context()), os.Stdout)
		}
		require.NoError(t, record.Close())
	}()
	require.NoError(t, the.Apply(t.Context(), composition(0)))
	var due []uint64
	for seed := first; seed <= last; seed++ {
		if !record.Passed(item(seed)) {
			due = append(due, seed)
		}
	}
	t.Logf("%d seeds are left of %d", len(due), last-first+1)
	for tier, seeds := range slices.Collect(slices.Chunk(due, together)) {
		began := time.Now()
		runs := play(t, seeds, tier+1)
		measured, fine := judgeProcesses(t)
		for _, r := range runs { // what a process did wrong is of all of them
			require.NoError(t, record.Add(campaign.Result{Item: item(r.seed), Passed: fine && !r.failed, Took: time.Since(began), Figures: measured}))
		}
		if t.Failed() {
			t.Fatalf("%d of %d seeds were played", tier*together+len(runs), len(due)) // what comes after may follow from it
		}
	}
}

func item(seed uint64) string { return fmt.Sprintf("seed %d", seed) }

// play a round of seeds under a new revision of the Composition, and judge them.
func play(t *testing.T, seeds []uint64, tier int) (runs []*run) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for _, seed := range seeds {
		runs = append(runs, newRun(t, seed))
	}
	each(ctx, t, runs, "prepare", (*run).prepare)
	require.NoError(t, the.Apply(ctx, composition(tier)))
	each(ctx, t, runs, "be held", (*run).held)
	each(ctx, t, runs, "play", (*run).play)
	wait.Pause(t, calm)
	judge(t, runs)
	for _, r := range runs {
		r.recovering = true
	}
	each(ctx, t, runs, "recover", (*run).recover)
	each(ctx, t, runs, "finish what was approved", (*run).finish)
	judge(t, runs)
	each(ctx, t, runs, "leave", (*run).leave)
	return runs
}

func judge(t *testing.T, runs []*run) {
	t.Helper()
	the.ledger.read(t)
	for _, r := range runs {
		r.judge()
	}
}

// each run that has not failed does something, all at once. The first error of each is reported.
func each(ctx context.Context, t *testing.T, runs []*run, what string, do func(*run, context.Context) error) {
	t.Helper()
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		if !r.failed {
			wg.Go(func() { errs[i] = do(r, ctx) })
		}
	}
	wg.Wait()
	for i, r := range runs {
		if errs[i] != nil {
			r.fail("cannot %s: %v", what, errs[i])
		}
	}
}
