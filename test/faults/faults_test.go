package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/hack/campaign"
	"github.com/kausality-io/function-kausality/test/figures"
)

var (
	only    = flag.String("faults.only", "", "play the injections of which COMPONENT/FAULT begins with this alone; several with commas")
	verbose = flag.Bool("faults.verbose", false, "print at once what is done")
	results = campaign.Register()
)

// sample of the campaign for make test.
var sample = []row{
	{webhook, killed, "Fail", "enforce", changed},
	{gate, stopped, "Ignore", "enforce", changed},
	{controller, killed, "Fail", "enforce", frozen},
	{function, killed, "Fail", "enforce", upgraded},
	{provider, cut, "Ignore", "log", gone},
	{apiserver, throttled, "Fail", "enforce", tampered},
}

// short is how long the faults of the sample last.
const short = 5 * time.Second

// TestFaults plays six runs at a time that are always the same.
func TestFaults(t *testing.T) {
	if *all {
		t.Skip("TestCampaign plays all")
	}
	var runs []*run
	for i, r := range sample {
		runs = append(runs, newRun(t, fmt.Sprintf("sample-%d", i), r))
	}
	wave(t, runs, func(injection) time.Duration { return short })
}

// TestCampaign plays all rows, those of each injection at once.
func TestCampaign(t *testing.T) {
	if !*all {
		t.Skip("only with -faults.all")
	}
	record, err := results.Open(slices.Concat(campaign.Product, campaign.Installed, []string{"test/faults"})...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, record.Close()) })
	n := 0
	for _, in := range injections(rows()) {
		var due []row
		for _, r := range rows() {
			if r.injection() == in && selected(r) && !record.Passed(r.String()) {
				due = append(due, r)
			}
		}
		if len(due) == 0 {
			continue
		}
		t.Run(in.component+"/"+in.fault, func(t *testing.T) {
			began := time.Now()
			var runs []*run
			for _, r := range due {
				n++
				runs = append(runs, newRun(t, fmt.Sprintf("run-%d-%d", os.Getpid(), n), r))
			}
			wave(t, runs, func(in injection) time.Duration { return lasts[in.fault] })
			for _, r := range runs {
				require.NoError(t, record.Add(campaign.Result{Item: r.row.String(), Passed: !r.failed, Took: time.Since(began), Figures: measured(t)}))
			}
		})
	}
}

func selected(r row) bool {
	return *only == "" || slices.ContainsFunc(strings.Split(*only, ","), func(p string) bool { return strings.HasPrefix(r.String(), p) })
}

// measured are the figures of our processes that run now; one may be about to start, or the webhook have decided nothing yet.
func measured(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range ours {
		if _, err := figures.Memory(out, c, the.Process(processes[c])); err != nil {
			t.Log(err)
		}
	}
	if _, err := figures.Decisions(t.Context(), out, "http://"+the.metrics+"/metrics"); err != nil {
		t.Log(err)
	}
	return out
}

func newRun(t *testing.T, ns string, r row) *run {
	t.Helper()
	return &run{t: t, ns: ns, row: r}
}

// wave of runs: they are prepared, their faults begin, the chapters are played, the faults
// end after a time, and the runs are judged.
func wave(t *testing.T, runs []*run, lasts func(injection) time.Duration) {
	t.Helper()
	began := time.Now()
	each(t, runs, "prepare", (*run).prepare)
	prepared := time.Since(began)
	var ins []injection
	for _, r := range runs {
		if !slices.Contains(ins, r.injection()) {
			ins = append(ins, r.injection())
		}
	}
	var wg sync.WaitGroup
	for _, in := range ins {
		effect, err := the.begin(t.Context(), in)
		if err != nil {
			t.Fatalf("%s/%s: %v", in.component, in.fault, err)
		}
		wg.Go(func() {
			timer := time.NewTimer(lasts(in))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-t.Context().Done():
			}
			ending, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
			defer cancel()
			if err := effect.happened(ending); err != nil { // what was played then is no run of it
				for _, r := range runs {
					if r.injection() == in {
						r.fail("the fault did not happen: %v", err)
					}
				}
			}
			if err := persist(ending, effect.end); err != nil {
				for _, r := range runs { // any of them may suffer from it
					r.fail("cannot end %s/%s: %v", in.component, in.fault, err)
				}
			}
		})
	}
	each(t, runs, "play", func(r *run, ctx context.Context) error { return plays[r.row[ofChapter]].during(ctx, r) })
	wg.Wait()
	over := time.Now()
	each(t, runs, "recover", func(r *run, ctx context.Context) error {
		err := plays[r.row[ofChapter]].after(ctx, r)
		if took := time.Since(over); *all && err == nil && took > patience { // nothing else runs beside the campaign
			return fmt.Errorf("it took %s after the fault, want %s", took.Round(time.Second), patience)
		}
		return err
	})
	each(t, runs, "go on", func(r *run, ctx context.Context) error {
		if plays[r.row[ofChapter]].deletes {
			return nil
		}
		return r.goesOn(ctx)
	})
	for _, r := range runs {
		r.judge(t.Context())
	}
	t.Logf("prepared in %s, all goes on %s after the fault", prepared.Round(time.Second), time.Since(over).Round(time.Second))
	each(t, runs, "leave", (*run).leave)
}

// persist in ending a fault: the API server may be about to start.
func persist(ctx context.Context, end func(context.Context) error) error {
	for {
		err := end(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(pace)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// each run does something, all at once, unless it has failed.
func each(t *testing.T, runs []*run, what string, do func(*run, context.Context) error) {
	t.Helper()
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i, r := range runs {
		if !r.failed {
			wg.Go(func() { errs[i] = do(r, t.Context()) })
		}
	}
	wg.Wait()
	for i, r := range runs {
		if errs[i] != nil {
			r.fail("cannot %s: %v", what, errs[i])
		}
	}
}
