package adversary

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/e2e/story"
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

// TestAdversary plays users with few rights, by seed (KR-13-03, KR-13-04).
func TestAdversary(t *testing.T) {
	first, last := *adversaryFirst, *adversarySeeds
	if *adversarySeed > 0 {
		first, last = *adversarySeed, *adversarySeed
	}
	defer func() {
		if t.Failed() {
			the.Dump(context.WithoutCancel(t.Context()), os.Stdout)
		}
	}()
	tier := 0
	for from := first; from <= last; from += together {
		var runs []*run
		for seed := from; seed <= min(last, from+together-1); seed++ {
			runs = append(runs, newRun(t, seed))
		}
		each(t, runs, "prepare", (*run).prepare)
		tier++
		require.NoError(t, the.Compose(t.Context(), composition(tier)))
		each(t, runs, "be held", (*run).held)
		each(t, runs, "play", (*run).play)
		wait.Pause(t, calm)
		for _, r := range runs {
			r.judge()
		}
		each(t, runs, "recover", (*run).recover)
		each(t, runs, "leave", (*run).leave)
		judgeProcesses(t)
		if t.Failed() {
			return // what comes after may follow from it
		}
	}
}

// composition: each revision has another tier.
func composition(n int) story.Composition {
	return story.Composition{Tier: fmt.Sprintf("tier-%d", n), Kausality: true}
}

// each run does something, all at once. The first error of each is reported.
func each(t *testing.T, runs []*run, what string, do func(*run, context.Context) error) {
	t.Helper()
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		wg.Go(func() { errs[i] = do(r, t.Context()) })
	}
	wg.Wait()
	for i, r := range runs {
		if errs[i] != nil {
			r.fail("cannot %s: %v", what, errs[i])
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
