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

// session is one run of phases.
type session struct {
	make string
	// kept is the directory of what a later run resumes from: the tree, the phases that passed, and test events.
	// Nothing is kept where it is empty.
	kept   string
	resume bool
	// passed, flaky, durations and record are files; an empty one is neither written nor read.
	passed, flaky, durations, record string

	tree tree
	// resumed means that what passed before for the same tree does not run again.
	resumed bool
	out     io.Writer
	began   time.Time
}

// phases makes targets and adds up.
func phases(ctx context.Context, args []string, out io.Writer) error {
	s := &session{out: out, began: time.Now()}
	fs := flag.NewFlagSet("phases", flag.ContinueOnError)
	fs.StringVar(&s.make, "make", "make", "the make to run")
	fs.StringVar(&s.kept, "kept", "", "directory of what a later run resumes from")
	fs.BoolVar(&s.resume, "resume", false, "do not run again what passed before for the same tree")
	fs.StringVar(&s.passed, "passed", "", "file that the tree is appended to when all phases have passed on a clean work tree")
	fs.StringVar(&s.flaky, "flaky", "", "file that flaky tests are appended to")
	fs.StringVar(&s.durations, "durations", "", "file that the durations of packages are written to")
	fs.StringVar(&s.record, "record", "", "file with the durations to compare with")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("no phase given: " + usage)
	}
	if err := runsAll(os.Getenv("MAKEFLAGS")); err != nil {
		return err
	}
	release, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	done, err := s.run(ctx, fs.Args())
	if err != nil {
		return err
	}
	return s.conclude(ctx, done)
}

// runsAll returns an error where make was called so that targets succeed without all of their commands: every phase would pass.
func runsAll(makeFlags string) error {
	letters, _, _ := strings.Cut(makeFlags, " ") // options of one letter come first, without a dash
	if !strings.HasPrefix(letters, "-") && !strings.Contains(letters, "=") && strings.ContainsAny(letters, "intq") {
		return fmt.Errorf("cannot test with make -%s: phases would pass whose commands did not run, or failed; leave out -i, -n, -q and -t", letters)
	}
	return nil
}

// open locks what is kept, and empties it unless this run resumes an earlier one of the same tree.
func (s *session) open(ctx context.Context) (release func(), err error) {
	if s.kept == "" {
		return func() {}, nil
	}
	if release, err = lockDir(s.kept); err != nil {
		return nil, err
	}
	if s.tree, err = currentTree(ctx); err != nil {
		_, _ = fmt.Fprintf(s.out, "warning: %v; nothing can be resumed\n", err)
		s.tree = tree{}
	}
	s.resumed = s.resume && s.tree.id != "" && keptTree(s.kept) == s.tree.id
	if s.resumed {
		return release, nil
	}
	if err := renew(s.kept, s.tree.id); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (s *session) run(ctx context.Context, targets []string) ([]phase, error) {
	dir, err := os.MkdirTemp("", "kausality-test-")
	if err != nil {
		return nil, fmt.Errorf("cannot keep the outcomes: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	done := make([]phase, 0, len(targets))
	for i, target := range targets {
		if ctx.Err() != nil {
			done = append(done, phase{name: target, result: skipped, tally: tally{Skipped: []skip{{target, "interrupted before it"}}}})
			continue
		}
		note := note{dir: s.kept, phase: target}
		if p, ok := note.read(); ok && s.resumed {
			_, _ = fmt.Fprintf(s.out, "\n=== %s passed before on this tree; it does not run again\n", target)
			done = append(done, p)
			continue
		}
		_, _ = fmt.Fprintf(s.out, "\n=== %s (phase %d of %d, %s elapsed)\n", target, i+1, len(targets), clock(time.Since(s.began)))
		p, err := s.runPhase(ctx, target, filepath.Join(dir, target))
		if err != nil {
			return nil, err
		}
		if err := s.unchanged(ctx); err != nil {
			return nil, err
		}
		if err := note.write(p); err != nil {
			return nil, err
		}
		done = append(done, p)
	}
	return done, nil
}

// unchanged forgets what is kept once the tree is another one than when the run began: what passed is of neither.
func (s *session) unchanged(ctx context.Context) error {
	if s.tree.id == "" {
		return nil
	}
	if now, err := currentTree(ctx); err == nil && now == s.tree {
		return nil
	}
	_, _ = fmt.Fprintln(s.out, "the work tree changed while the tests ran; their pass is not recorded, and cannot be resumed")
	s.tree, s.resumed = tree{}, false
	return renew(s.kept, "")
}

func (s *session) runPhase(ctx context.Context, target, file string) (phase, error) {
	began := time.Now()
	cmd := interruptible(ctx, s.make, "--no-print-directory", target)
	cmd.Stdout = s.out
	cmd.Env = append(os.Environ(), tallyFile+"="+file, flakyFile+"="+s.flaky)
	if s.kept != "" {
		cmd.Env = append(cmd.Env, eventsDir+"="+filepath.Join(s.kept, target))
	}
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

// conclude with a table, what failed, was flaky, slow or skipped by name, and the sum.
func (s *session) conclude(ctx context.Context, done []phase) error {
	known, err := readRecord(s.record)
	if err != nil {
		return err
	}
	var sum tally
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "phase\tresult\ttime\ttests and checks")
	for _, p := range done {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.name, p.result, clock(p.took), &p.tally)
		sum.add(p.tally)
	}
	_ = w.Flush()
	_, _ = b.WriteString(sum.details(known))
	_, _ = fmt.Fprintf(s.out, "\n=== summary (%s)\n%s", clock(time.Since(s.began)), &b)
	if s.durations != "" && len(sum.Seconds) > 0 {
		if err := known.writeDurations(s.durations, sum.Seconds); err != nil {
			return err
		}
	}
	if len(sum.Failed) == 0 && ctx.Err() == nil {
		if err := s.recordPass(); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintln(s.out, &sum)
	if len(sum.Failed) > 0 || ctx.Err() != nil {
		return errFailed
	}
	return nil
}

// recordPass appends the tree to the file of those that passed, if it is a commit's.
func (s *session) recordPass() error {
	if s.passed == "" || !s.tree.clean {
		return nil
	}
	how := "whole"
	if s.resumed {
		how = "resumed"
	}
	return appendTo(s.passed, fmt.Sprintf("%s\t%s\t%s\n", s.tree.id, how, s.began.UTC().Format(time.RFC3339)))
}

// clock shows a duration as minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
