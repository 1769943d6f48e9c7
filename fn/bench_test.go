package fn

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/fn/ssa"
	"github.com/kausality-io/function-kausality/internal/race"
)

// benchStage is a settled composite of n databases, each about 3.5 KB with its
// managedFields.
func benchStage(tb testing.TB, n int) (*stage, desire) {
	tb.Helper()
	t := &testing.T{}
	s := newStage(t, enforce)
	want := desire{}
	for i := range n {
		extra := make([]string, 0, 24)
		for j := range 12 {
			extra = append(extra, fmt.Sprintf("field%d", j), strings.Repeat("x", 40))
		}
		want[fmt.Sprintf("database-%03d", i)] = database(1, extra...)
	}
	s.reconcile(want)
	for name := range s.live {
		s.update(name, "provider", func(o map[string]any) {
			at := map[string]any{}
			for k, v := range ssa.Child(ssa.Child(o, "spec"), "forProvider") {
				at[k] = v
			}
			o["status"] = map[string]any{"atProvider": at}
		})
	}
	s.ready()
	s.now = s.now.Add(time.Minute)
	s.reconcile(want)
	s.ready()
	return s, want
}

// budgets of one RunFunction by the number of composed resources, on an idle core.
var budgets = map[int]time.Duration{10: time.Millisecond, 100: 8 * time.Millisecond, 500: 50 * time.Millisecond}

// BenchmarkRunFunction in steady state (nothing changes), and where everything
// drifts and is held. It fails where it takes longer than its budget.
func BenchmarkRunFunction(b *testing.B) {
	for _, n := range []int{10, 100, 500} {
		s, want := benchStage(b, n)
		for _, c := range []struct {
			name string
			want desire
		}{{name: "steady", want: want}, {name: "held", want: drifted(want)}} {
			req := s.request(c.want)
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.fn.RunFunction(context.Background(), req); err != nil {
						b.Fatal(err)
					}
				}
				if took := b.Elapsed() / time.Duration(b.N); took > budgets[n] {
					b.Errorf("%s for %d resources, more than %s", took, n, budgets[n])
				}
			})
		}
	}
}

// A run makes no more allocations than it needs, for 10 composed resources: they
// creep up one by one.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates, too")
	}
	s, want := benchStage(t, 10)
	for name, tc := range map[string]struct {
		want   desire
		allocs float64
	}{"Steady": {want: want, allocs: 1172}, "Held": {want: drifted(want), allocs: 2768}} {
		t.Run(name, func(t *testing.T) {
			req := s.request(tc.want)
			if got := testing.AllocsPerRun(20, func() { _, _ = s.fn.RunFunction(t.Context(), req) }); got > tc.allocs {
				t.Errorf("%.0f allocations, more than %.0f", got, tc.allocs)
			}
		})
	}
}

func drifted(want desire) desire {
	out := desire{}
	for name := range want {
		out[name] = database(7)
	}
	return out
}
