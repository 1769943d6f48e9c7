package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	only    = flag.String("faults.only", "", "play the injections of which COMPONENT/FAULT begins with this alone; several with commas")
	verbose = flag.Bool("faults.verbose", false, "print at once what is done")
	results = flag.String("faults.results", "", "append a line for each run to this file, and leave out what it has passed")
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
	if *campaign {
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
	if !*campaign {
		t.Skip("only with -faults.all")
	}
	passed, err := os.ReadFile(*results)
	if err != nil && !errors.Is(err, os.ErrNotExist) && *results != "" {
		t.Fatal(err)
	}
	n := 0
	for _, in := range injections(rows()) {
		var due []row
		for _, r := range rows() {
			if r.injection() == in && selected(r) && !strings.Contains(string(passed), "pass\t"+strings.ReplaceAll(r.String(), "/", "\t")+"\n") {
				due = append(due, r)
			}
		}
		if len(due) == 0 {
			continue
		}
		t.Run(in.component+"/"+in.fault, func(t *testing.T) {
			var runs []*run
			for _, r := range due {
				n++
				runs = append(runs, newRun(t, fmt.Sprintf("run-%d-%d", os.Getpid(), n), r))
			}
			defer record(t, runs)
			wave(t, runs, func(in injection) time.Duration { return lasts[in.fault] })
		})
	}
}

func selected(r row) bool {
	return *only == "" || slices.ContainsFunc(strings.Split(*only, ","), func(p string) bool { return strings.HasPrefix(r.String(), p) })
}

// record the results, a line for each run.
func record(t *testing.T, runs []*run) {
	if *results == "" {
		return
	}
	f, err := os.OpenFile(*results, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	for _, r := range runs {
		result := "pass"
		if r.failed {
			result = "FAIL"
		}
		_, err = fmt.Fprintf(f, "%s\t%s\n", result, strings.ReplaceAll(r.row.String(), "/", "\t"))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
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
		end, err := the.begin(t.Context(), in)
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
			if err := persist(ending, end); err != nil {
				t.Errorf("cannot end %s/%s: %v", in.component, in.fault, err)
			}
		})
	}
	each(t, runs, "play", func(r *run, ctx context.Context) error { return plays[r.row[ofChapter]].during(ctx, r) })
	wg.Wait()
	over := time.Now()
	each(t, runs, "recover", func(r *run, ctx context.Context) error { return plays[r.row[ofChapter]].after(ctx, r) })
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
