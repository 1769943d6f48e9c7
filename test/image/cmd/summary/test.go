package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// eventsDir names the environment variable with the directory in which test keeps the events of a phase. What
	// passed according to the events there does not run again.
	eventsDir = "SUMMARY_EVENTS"
	// flakyFile names the environment variable with the file that flaky tests are appended to.
	flakyFile = "SUMMARY_FLAKY"
	// progress is how often it is shown what runs.
	progress = time.Minute
)

// tester runs tests of one module.
type tester struct {
	command
	// each: packages run as processes of their own, as many at a time as the machine carries, and what
	// fails is repeated.
	each    bool
	atATime int
	record  string
	// more: what the record leaves to make test-more runs, and nothing else.
	more bool
	// kept is the directory of the events.
	kept string
	out  io.Writer
	now  time.Time

	gauge gauge
	mu    sync.Mutex
	tally tally
	// failures of tests and packages so far, as judgements count them.
	failures, ended, all int
	running              []string
	err                  error
}

// test runs packages with gotestsum and adds their outcomes to the tally.
func test(ctx context.Context, args []string, out io.Writer) error {
	t := &tester{out: out, now: time.Now(), kept: os.Getenv(eventsDir)}
	set := flag.NewFlagSet("test", flag.ContinueOnError)
	set.StringVar(&t.program, "gotestsum", "gotestsum", "the gotestsum to run")
	set.StringVar(&t.dir, "C", ".", "directory of the module")
	set.BoolVar(&t.each, "each", false, "run each package by itself, as many at a time as the machine carries, and repeat what fails")
	set.IntVar(&t.atATime, "at-a-time", 0, "how many packages run at a time with --each; 0: what the machine carries")
	set.StringVar(&t.record, "record", "", "file with the durations and loads of packages")
	set.BoolVar(&t.more, "more", false, "run what the record leaves to make test-more, and nothing else")
	set.BoolVar(&t.verbose, "v", false, "show the output of all tests")
	packages := set.String("packages", "./...", "packages, separated by spaces")
	if err := set.Parse(args); err != nil {
		return err
	}
	t.packages, t.flags = strings.Fields(*packages), set.Args()
	if t.kept == "" {
		dir, err := os.MkdirTemp("", "kausality-test-")
		if err != nil {
			return fmt.Errorf("cannot keep test events: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		t.kept = dir
	}
	if err := os.MkdirAll(t.kept, 0o755); err != nil {
		return fmt.Errorf("cannot keep test events: %w", err)
	}
	return t.run(ctx)
}

func (t *tester) run(ctx context.Context) error {
	done := make(chan struct{})
	go t.gauge.run(done)
	if t.each {
		t.runEach(ctx)
	} else {
		t.runTogether(ctx)
	}
	close(done)
	if t.failures > mayFail && len(t.tally.Flaky) > 0 {
		const many = "%d tests and packages failed at first; where more than %d do, none counts as flaky"
		t.tally.Failed = append(t.tally.Failed, fmt.Sprintf(many, t.failures, mayFail))
	}
	switch {
	case ctx.Err() != nil:
		t.tally.Failed = append(t.tally.Failed, "interrupted")
	case t.err == nil && t.tally.empty():
		t.tally.Failed = append(t.tally.Failed, "no test ran of "+strings.Join(t.packages, " ")+" with "+strings.Join(t.flags, " "))
	}
	if err := errors.Join(t.err, t.saveFlaky(), t.tally.save(os.Getenv(tallyFile))); err != nil {
		return err
	}
	if os.Getenv(tallyFile) == "" { // no summary of phases follows
		_, _ = fmt.Fprintf(t.out, "%s%s\n", t.tally.details(nil), &t.tally)
	}
	if len(t.tally.Failed) > 0 {
		return errFailed
	}
	return nil
}

// runTogether runs all packages with one gotestsum. Nothing is repeated.
func (t *tester) runTogether(ctx context.Context) {
	c := t.command
	c.events = t.eventsOf("together "+c.dir, 1)
	whole := c.events + ".whole"
	if kept, err := readEvents(c.events); err == nil && allPassed(kept) && exists(whole) {
		t.print("%s passed before; it does not run again\n", c.dir)
		t.add(kept, false)
		return
	}
	if err := os.Remove(whole); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.err = fmt.Errorf("cannot keep test events: %w", err)
		return
	}
	all, failed, err := c.run(ctx, t.out)
	if err != nil {
		t.err = err
		return
	}
	t.add(all, failed)
	if !failed && ctx.Err() == nil {
		t.err = appendTo(whole, "")
	}
}

// exists reports whether a file marks events as those of all packages: a run that was killed has none of
// the packages that it had not begun.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// add the executions of several packages, none of which was repeated.
func (t *tester) add(all []*execution, failed bool) {
	for _, x := range all {
		j := judge(x.pkg, []attempt{{x}}, false, t.gauge.at)
		j.tally.Seconds = map[string]float64{x.pkg: j.seconds}
		t.tally.add(j.tally)
	}
	if failed && len(t.tally.Failed) == 0 {
		t.tally.Failed = append(t.tally.Failed, "gotestsum "+strings.Join(t.packages, " "))
	}
}

func allPassed(all []*execution) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(x *execution) bool { return x.result != actionPass && x.result != actionSkip })
}

// runEach runs each package with a gotestsum of its own.
func (t *tester) runEach(ctx context.Context) {
	known, err := readRecord(t.record)
	if err != nil {
		t.err = err
		return
	}
	names, err := t.list(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		t.err = err
		return
	}
	items := itemsOf(names, known, t.more)
	t.all = len(items)
	if left := itemsOf(names, known, true); !t.more && len(left) > 0 {
		t.print("%d packages, or tests of them, are left to make test-more; docs/testing.md lists them\n", len(left))
	}
	stop := t.report()
	schedule(ctx, thisMachine(t.atATime), items, func(i item) { t.runItem(ctx, i) })
	stop()
}

// list the packages that have tests.
func (t *tester) list(ctx context.Context) ([]string, error) {
	args := append([]string{"list", "-C", t.dir, "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, t.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list packages %s: %w: %s", strings.Join(t.packages, " "), err, strings.TrimSpace(stderr.String()))
	}
	names := strings.Fields(string(raw))
	if len(names) == 0 {
		return nil, fmt.Errorf("cannot find tests in %s", strings.Join(t.packages, " "))
	}
	return names, nil
}

// runItem runs a package or tests of it, once more where it died, and judges it.
func (t *tester) runItem(ctx context.Context, i item) {
	t.began(i.key)
	var kept bytes.Buffer
	out := io.Writer(&kept)
	if t.all == 1 {
		out = t.out
	}
	var attempts []attempt
	if before, err := readEvents(t.eventsOf(i.key, 1)); err == nil && allPassed(before) {
		t.finished(i.key, judge(i.pkg, []attempt{before}, i.subtests, t.gauge.at), "")
		return
	}
	for {
		c := t.command
		c.packages, c.events, c.repeatable = []string{i.pkg}, t.eventsOf(i.key, len(attempts)+1), max(mayFail-t.failuresSoFar(), 0)
		c.flags, c.subtests = append(i.flags(), c.flags...), i.subtests
		all, failed, err := c.run(ctx, out)
		if err != nil {
			t.fail(err)
			return
		}
		if err := t.writable(failed); err != nil {
			t.fail(err)
			return
		}
		attempts = append(attempts, all)
		j := judge(i.pkg, attempts, i.subtests, t.gauge.at)
		switch {
		case failed && len(j.Failed) == 0:
			j.Failed = append(j.Failed, i.key)
		case i.tests != "" && j.empty():
			j.Failed = append(j.Failed, i.key+": there is no such test")
		}
		if j.again && ctx.Err() == nil && t.failuresSoFar() < mayFail {
			_, _ = fmt.Fprintf(out, "%s ended without the result of all its tests; it is repeated once\n", i.key)
			continue
		}
		t.finished(i.key, j, kept.String())
		return
	}
}

// writable returns why events cannot be written, where a run failed: what is cut off then is no
// result of a test.
func (t *tester) writable(failed bool) error {
	if !failed {
		return nil
	}
	probe := filepath.Join(t.kept, ".probe")
	err := os.WriteFile(probe, make([]byte, 1<<16), 0o600)
	_ = os.Remove(probe)
	if err != nil {
		return fmt.Errorf("cannot keep test events: %w", err)
	}
	return nil
}

// eventsOf returns the file for the events of an attempt.
func (t *tester) eventsOf(what string, attempt int) string {
	name := strings.NewReplacer("/", "_", " ", "_", "|", "_").Replace(what)
	return filepath.Join(t.kept, fmt.Sprintf("%s.%d.json", name, attempt))
}

func (t *tester) began(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = append(t.running, key)
}

func (t *tester) failuresSoFar() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failures
}

func (t *tester) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil { // the others fail for the same reason
		t.err = err
	}
}

// finished adds the judgement of an item, and shows its output where it did not simply pass.
func (t *tester) finished(key string, j judgement, output string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j.tally.Seconds = map[string]float64{key: j.seconds}
	t.tally.add(j.tally)
	t.failures += j.failures
	t.ended++
	t.running = slices.DeleteFunc(t.running, func(r string) bool { return r == key })
	word := "ok   "
	switch {
	case len(j.Failed) > 0:
		word = "FAIL "
	case len(j.Flaky) > 0:
		word = "flaky"
	}
	if word != "ok   " || t.verbose {
		_, _ = io.WriteString(t.out, output)
	}
	_, _ = fmt.Fprintf(t.out, "%s %s %.1fs (%d of %d, %s)\n", word, key, j.seconds, t.ended, t.all, clock(time.Since(t.now)))
}

// report what runs now and then, until stop is called.
func (t *tester) report() (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(progress)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				t.mu.Lock()
				_, _ = fmt.Fprintf(t.out, "      %s, %d of %d packages done, running: %s\n", clock(time.Since(t.now)), t.ended, t.all, strings.Join(t.running, ", "))
				t.mu.Unlock()
			}
		}
	}()
	return func() { close(done) }
}

func (t *tester) print(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format, args...) }

// saveFlaky appends what was flaky to its file: test, package, seconds, pressure in percent.
func (t *tester) saveFlaky() error {
	path := os.Getenv(flakyFile)
	if path == "" {
		return nil
	}
	var b strings.Builder
	for _, f := range t.tally.Flaky {
		_, _ = fmt.Fprintf(&b, "%s\t%s\t%.1f\t%.0f\n", f.Test, f.Package, f.Seconds, f.Pressure)
	}
	if b.Len() == 0 {
		return nil
	}
	return appendTo(path, b.String())
}
