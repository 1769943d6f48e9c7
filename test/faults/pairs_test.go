package faults

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
)

// dimensions of a run, in the order of row.
const (
	ofComponent = iota
	ofFault
	ofFailure
	ofMode
	ofChapter
	dimensionCount
)

// row has the value of each dimension.
type row [dimensionCount]string

func (r row) String() string {
	return fmt.Sprintf("%s/%s/%s/%s/%s", r[ofComponent], r[ofFault], r[ofFailure], r[ofMode], r[ofChapter])
}

// injection is what a row has in common with others that are played at once.
type injection struct{ component, fault string }

func (r row) injection() injection { return injection{r[ofComponent], r[ofFault]} }

// The values.
var (
	components = []string{webhook, gate, function, controller, provider, crossplane, etcd, apiserver}
	faults     = []string{killed, stopped, cut, full, behind, ahead, throttled, compacted, silent, unconverted, expired}
	failures   = []string{"Ignore", "Fail"}
	modes      = []string{logs, enforces}
	chapters   = []string{created, settled, changed, tampered, reverted, upgraded, frozen, deleted, gone}
)

// The modes: of the Namespace, or own, where the Namespace logs and the objects enforce by their own annotation.
const logs, enforces, own = "log", "enforce", "own"

// unobserved are rows in which no webhook observes a change under enforce, which none but objects that enforce by their own annotation have (KR-12-10).
var unobserved = []row{
	{webhook, killed, "Ignore", own, changed},
	{webhook, stopped, "Ignore", own, changed},
}

// possible faults of each component; docs/reliability.md has the reasons for the others.
var possible = map[string][]string{
	webhook:    {killed, stopped, cut, full, behind, ahead, throttled, compacted, silent, expired},
	gate:       {killed, stopped, cut, full, behind, ahead, throttled, compacted, silent},
	function:   {killed, stopped, full, behind, ahead, expired},
	controller: {killed, stopped, cut, full, behind, ahead, throttled, compacted, silent, expired},
	provider:   {killed, stopped, cut, full, throttled, compacted, silent},
	crossplane: {killed, stopped, cut, full, throttled, compacted, silent},
	etcd:       {killed, stopped, full, compacted},
	apiserver:  {killed, stopped, cut, full, behind, ahead, throttled, compacted, silent, unconverted},
}

// pair of values of two dimensions.
type pair struct {
	a, b int
	x, y string
}

// pairs of a row.
func (r row) pairs() []pair {
	var out []pair
	for a := range r {
		for b := a + 1; b < len(r); b++ {
			out = append(out, pair{a, b, r[a], r[b]})
		}
	}
	return out
}

// combinations: all rows that make sense, in an order that is always the same and mixes the values.
func combinations() []row {
	var out []row
	for _, c := range components {
		for _, f := range possible[c] {
			for _, policy := range failures {
				for _, m := range modes {
					for _, ch := range chapters {
						out = append(out, row{c, f, policy, m, ch})
					}
				}
			}
		}
	}
	hash := func(r row) uint32 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(r.String())) // it never fails
		return h.Sum32()
	}
	slices.SortFunc(out, func(a, b row) int { return int(int64(hash(a)) - int64(hash(b))) })
	return out
}

// rows that have all pairs of values which any row that makes sense has, and those that are unobserved. Each next row is
// the first of those with the most pairs that are missing.
var rows = sync.OnceValue(func() []row {
	candidates, missing := combinations(), map[pair]bool{}
	for _, r := range candidates {
		for _, p := range r.pairs() {
			missing[p] = true
		}
	}
	var out []row
	for len(missing) > 0 {
		best, most := 0, 0
		for i, r := range candidates {
			n := 0
			for _, p := range r.pairs() {
				if missing[p] {
					n++
				}
			}
			if n > most {
				best, most = i, n
			}
		}
		for _, p := range candidates[best].pairs() {
			delete(missing, p)
		}
		out = append(out, candidates[best])
	}
	return append(out, unobserved...)
})

// injections of rows, in the order of components and faults.
func injections(of []row) []injection {
	var out []injection
	for _, c := range components {
		for _, f := range faults {
			if slices.ContainsFunc(of, func(r row) bool { return r.injection() == injection{c, f} }) {
				out = append(out, injection{c, f})
			}
		}
	}
	return out
}

// TestAllPairs: the campaign has all pairs, in at most 200 runs.
func TestAllPairs(t *testing.T) {
	t.Parallel()
	have := map[pair]bool{}
	for _, r := range rows() {
		if !slices.Contains(possible[r[ofComponent]], r[ofFault]) {
			t.Errorf("%s makes no sense", r)
		}
		for _, p := range r.pairs() {
			have[p] = true
		}
	}
	for _, r := range combinations() {
		for _, p := range r.pairs() {
			if !have[p] {
				t.Fatalf("no row has %v", p)
			}
		}
	}
	if n := len(rows()); n > 200 {
		t.Errorf("%d runs, at most 200 are allowed", n)
	}
	t.Logf("%d runs of %d combinations, with %d injections", len(rows()), len(combinations()), len(injections(rows())))
}
