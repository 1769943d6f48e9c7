package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
)

// phase of a test run.
type phase struct {
	name, result string
	took         time.Duration
	tally        tally
}

// phases makes targets and adds up.
func phases(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("phases", flag.ContinueOnError)
	program := fs.String("make", "make", "the make to run")
	kept := fs.String("done", "", "directory in which phases that passed are noted; they are not run again")
	version := fs.String("version", "", "of what is tested; a phase that passed for another version runs again")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("no phase given: " + usage)
	}
	dir, err := os.MkdirTemp("", "kausality-test-")
	if err != nil {
		return fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	began := time.Now()
	done := make([]phase, 0, fs.NArg())
	for i, target := range fs.Args() {
		if ctx.Err() != nil {
			done = append(done, phase{name: target, result: skipped, tally: tally{Skipped: []skip{{target, "interrupted before it"}}}})
			continue
		}
		note := note{dir: *kept, phase: target, version: *version}
		if p, ok := note.read(); ok {
			_, _ = fmt.Fprintf(out, "\n=== %s passed before, for %s; it does not run again\n", target, *version)
			done = append(done, p)
			continue
		}
		_, _ = fmt.Fprintf(out, "\n=== %s (phase %d of %d, %s elapsed)\n", target, i+1, fs.NArg(), clock(time.Since(began)))
		p, err := runPhase(ctx, *program, target, filepath.Join(dir, target), out)
		if err != nil {
			return err
		}
		if err := note.write(p); err != nil {
			return err
		}
		done = append(done, p)
	}
	return conclude(out, done, time.Since(began))
}

func runPhase(ctx context.Context, program, target, file string, out io.Writer) (phase, error) {
	began := time.Now()
	cmd := interruptible(ctx, program, "--no-print-directory", target)
	cmd.Stdout = out
	cmd.Env = append(os.Environ(), tallyFile+"="+file)
	runErr := cmd.Run()
	t, err := loadTally(file)
	if err != nil {
		return phase{}, err
	}
	return settle(phase{name: target, took: time.Since(began), tally: t}, runErr), nil
}

// settle the result of a phase. One that fails without a failed test, or that
// has no tests, counts as a check of its own.
func settle(p phase, err error) phase {
	switch {
	case err != nil && len(p.tally.Failed) == 0:
		p.tally.Failed = []string{fmt.Sprintf("%s (%v)", p.name, err)}
	case p.tally.empty():
		p.tally.Passed = 1
	}
	switch {
	case err != nil, len(p.tally.Failed) > 0:
		p.result = failed
	case p.tally.Passed == 0:
		p.result = skipped
	default:
		p.result = passed
	}
	return p
}

// conclude with a table, what failed and was skipped by name, and the sum.
func conclude(out io.Writer, done []phase, took time.Duration) error {
	var sum tally
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "phase\tresult\ttime\ttests and checks")
	for _, p := range done {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.name, p.result, clock(p.took), &p.tally)
		sum.add(p.tally)
	}
	_ = w.Flush()
	for _, name := range sum.Failed {
		_, _ = fmt.Fprintln(&b, "failed:", name)
	}
	for _, s := range sum.Skipped {
		_, _ = fmt.Fprintf(&b, "skipped: %s: %s\n", s.Name, s.Why)
	}
	_, _ = fmt.Fprintf(out, "\n=== summary (%s)\n%s%s\n", clock(took), &b, &sum)
	if len(sum.Failed) > 0 {
		return errFailed
	}
	return nil
}

// clock shows a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
