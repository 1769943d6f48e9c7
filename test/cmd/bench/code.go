package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/benchmark/parse"

	"github.com/kausality-io/function-kausality/test/controlplane/parts"
)

// target of a Go benchmark, or of all whose names match.
type target struct {
	name   string // as path.Match has it
	time   time.Duration
	allocs uint64 // 0: not limited
}

// targets: the first that matches counts.
var targets = []target{
	{name: "BenchmarkEvaluate/NoChange*", time: 20 * time.Microsecond, allocs: 30},
	{name: "BenchmarkEvaluate/*", time: 120 * time.Microsecond, allocs: 300},
	{name: "BenchmarkCover", time: 300 * time.Microsecond},
	{name: "BenchmarkHandle/*", time: handlerMedian},
	{name: "BenchmarkRunFunction/*/10", time: time.Millisecond},
	{name: "BenchmarkRunFunction/*/100", time: 8 * time.Millisecond},
	{name: "BenchmarkRunFunction/*/500", time: 50 * time.Millisecond},
}

// few and many policies that are compared, and the ratio that is allowed.
const (
	fewPolicies  = "BenchmarkPolicies/10"
	manyPolicies = "BenchmarkPolicies/10000"
	policyRatio  = 1.1
)

// code runs the Go benchmarks of the decision, the webhook's handler and the
// function, and holds them against their targets. Each runs several times, and
// the best counts: what else the machine does only ever adds.
func code(ctx context.Context, _ options) error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	fmt.Println("\nthe code alone (Go benchmarks, the best of 5 runs; about 2 minutes):")
	cmd := exec.CommandContext(ctx, "go", "test", "-trimpath", "-run", "^$", "-bench", ".", "-benchtime", "300ms", "-count", "5",
		"./admission", "./webhook", "./fn")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, failed := cmd.Output() // benchmarks that ran are reported although another one failed
	set, err := parse.ParseSet(bytes.NewReader(out))
	if err != nil {
		return fmt.Errorf("cannot read what the Go benchmarks printed: %w", errors.Join(failed, err))
	}
	err = judge(set)
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("the Go benchmarks failed: %w:\n%s", failed, out))
	}
	return err
}

// best runs by name, without the number of CPUs at its end, and the names in the
// order in which they ran.
func best(set parse.Set) (map[string]*parse.Benchmark, []string) {
	out := map[string]*parse.Benchmark{}
	for name, runs := range set {
		b := slices.MinFunc(runs, func(a, b *parse.Benchmark) int { return cmp.Compare(a.NsPerOp, b.NsPerOp) })
		b.Ord = runs[0].Ord
		out[cpus.ReplaceAllString(name, "")] = b
	}
	return out, slices.SortedFunc(maps.Keys(out), func(a, b string) int { return cmp.Compare(out[a].Ord, out[b].Ord) })
}

var cpus = regexp.MustCompile(`-\d+$`)

// judge prints a line for each benchmark.
func judge(set parse.Set) error {
	all, order := best(set)
	fmt.Printf("\n%-40s %12s %10s   %s\n", "", "time", "allocs", "target")
	var missed []string
	for _, name := range order {
		b, text := all[name], ""
		if i := slices.IndexFunc(targets, func(t target) bool { ok, _ := path.Match(t.name, name); return ok }); i >= 0 {
			t := targets[i]
			text = t.String()
			if time.Duration(b.NsPerOp) > t.time || t.allocs > 0 && b.AllocsPerOp > t.allocs {
				missed = append(missed, name)
			}
		}
		fmt.Printf("%-40s %12s %10d   %s\n", strings.TrimPrefix(name, "Benchmark"), time.Duration(b.NsPerOp).Round(10*time.Nanosecond), b.AllocsPerOp, text)
	}
	few, many := all[fewPolicies], all[manyPolicies]
	if few == nil || many == nil {
		return fmt.Errorf("%s and %s did not run", fewPolicies, manyPolicies)
	}
	ratio := many.NsPerOp / few.NsPerOp
	fmt.Printf("\n10,000 policies of 500 kinds cost %.2f times what 10 cost, target %.1f\n", ratio, policyRatio)
	if ratio > policyRatio {
		missed = append(missed, manyPolicies)
	}
	if len(missed) > 0 {
		return fmt.Errorf("missed: %s", strings.Join(missed, ", "))
	}
	return nil
}

func (t target) String() string {
	if t.allocs == 0 {
		return t.time.String()
	}
	return fmt.Sprintf("%s, %d allocs", t.time, t.allocs)
}
