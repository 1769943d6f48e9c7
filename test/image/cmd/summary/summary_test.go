package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettle(t *testing.T) {
	broken := errors.New("exit status 2")
	cases := map[string]struct {
		tally  tally
		err    error
		result string
		sum    string
	}{
		"Check":            {tally{}, nil, passed, "1 passed, 0 failed, 0 skipped"},
		"FailedCheck":      {tally{}, broken, failed, "0 passed, 1 failed, 0 skipped"},
		"Tests":            {tally{Passed: 3}, nil, passed, "3 passed, 0 failed, 0 skipped"},
		"FailedTest":       {tally{Passed: 3, Failed: []string{"a"}}, broken, failed, "3 passed, 1 failed, 0 skipped"},
		"FailedAfterTests": {tally{Passed: 3}, broken, failed, "3 passed, 1 failed, 0 skipped"},
		"AllSkipped":       {tally{Skipped: []skip{{"a", "b"}}}, nil, skipped, "0 passed, 0 failed, 1 skipped"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := settle(phase{name: "unit", tally: tc.tally}, tc.err)
			if got.result != tc.result || got.tally.String() != tc.sum {
				t.Errorf("want %s (%s), got %s (%s)", tc.result, tc.sum, got.result, &got.tally)
			}
		})
	}
}

func TestPhases(t *testing.T) {
	t.Chdir(t.TempDir())
	const makefile = "good:\n\t@echo fine\nbad:\n\t@false\n"
	if err := os.WriteFile("Makefile", []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := run(t.Context(), []string{"phases", "bad", "good"}, &out)
	if !errors.Is(err, errFailed) {
		t.Errorf("phases: want it to fail with its phase, got %v", err)
	}
	if !strings.HasSuffix(out.String(), "\n1 passed, 1 failed, 0 skipped\n") || !strings.Contains(out.String(), "fine") {
		t.Errorf("phases: want both run and counted on the last line, got:\n%s", &out)
	}
	out.Reset()
	if err := run(t.Context(), []string{"phases", "good"}, &out); err != nil {
		t.Errorf("phases: want success, got %v\n%s", err, &out)
	}
}

// A fresh clone has no directory for what a run writes.
func TestNoDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	const makefile = "unit:\n\t@echo '{\"passed\":1,\"seconds\":{\"a\":2}}' >>$$" + tallyFile + "\n"
	if err := os.WriteFile("Makefile", []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"phases", "--durations", "out/durations.tsv", "unit"}, &out); err != nil {
		t.Errorf("phases: want success, got %v\n%s", err, &out)
	}
	if raw, err := os.ReadFile("out/durations.tsv"); err != nil || string(raw) != "a\t2.0\tplane\n" {
		t.Errorf("durations: got %q, %v", raw, err)
	}
	if err := appendTo("other/flaky.tsv", "TestA\n"); err != nil {
		t.Error(err)
	}
}

// A phase that passed is not run again on the same tree, and its tests still count; what passed on a clean work tree
// is recorded.
func TestResume(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	repository := func(args ...string) {
		if text, err := git(t.Context(), nil, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...); err != nil {
			t.Fatal(err, text)
		}
	}
	times := func(name string) int {
		raw, err := os.ReadFile("out/" + name + ".log")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "x")
	}
	write("Makefile", "good:\n\t@echo x >> out/good.log\nbad:\n\t@echo x >> out/bad.log; test -f out/repaired\n")
	write(".gitignore", "out\n")
	repository("init", "-q")
	repository("add", ".")
	repository("commit", "-q", "-m", "one")
	if err := os.Mkdir("out", 0o700); err != nil {
		t.Fatal(err)
	}
	const both = "2 passed, 0 failed, 0 skipped"
	steps := []struct {
		reason    string
		before    func()
		fresh     bool
		good, bad int
		sum       string
		passed    []string
	}{
		{reason: "Both run.", good: 1, bad: 1, sum: "1 passed, 1 failed, 0 skipped"},
		{reason: "What failed runs again.", before: func() { write("out/repaired", "") }, good: 1, bad: 2, sum: both, passed: []string{"resumed"}},
		{reason: "Both passed.", good: 1, bad: 2, sum: both, passed: []string{"resumed", "resumed"}},
		{reason: "Without --resume all of it runs.", fresh: true, good: 2, bad: 3, sum: both, passed: []string{"resumed", "resumed", "whole"}},
		{reason: "Another tree runs whole, and is not recorded where it is no commit's.", before: func() { write("new", "") }, good: 3, bad: 4,
			sum: both, passed: []string{"resumed", "resumed", "whole"}},
		{reason: "The same changes are the same tree.", good: 3, bad: 4, sum: both, passed: []string{"resumed", "resumed", "whole"}},
	}
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		args := []string{"phases", "--kept", "out/kept", "--passed", "out/passed"}
		if !s.fresh {
			args = append(args, "--resume")
		}
		var out strings.Builder
		err := run(t.Context(), append(args, "good", "bad"), &out)
		if failed := strings.Contains(s.sum, "1 failed"); (err != nil) != failed {
			t.Errorf("%s got error %v", s.reason, err)
		}
		if times("good") != s.good || times("bad") != s.bad || !strings.HasSuffix(out.String(), s.sum+"\n") {
			t.Errorf("%s Got %d and %d runs, want %d and %d, and %q in:\n%s", s.reason, times("good"), times("bad"), s.good, s.bad, s.sum, &out)
		}
		if diff := cmp.Diff(s.passed, recordedPasses(t, "out/passed")); diff != "" {
			t.Errorf("%s -want, +recorded:\n%s", s.reason, diff)
		}
	}
}

// recordedPasses returns how each tree in a file passed; each is that of HEAD.
func recordedPasses(t *testing.T, path string) []string {
	t.Helper()
	head, err := git(t.Context(), nil, "rev-parse", "HEAD^{tree}")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var how []string
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(line, "\t")
		if fields[0] != head {
			t.Errorf("%s: want the tree %s first", line, head)
		}
		how = append(how, fields[1])
	}
	return how
}

// What passed while the tree was another one is neither recorded nor resumed, though it is put back.
func TestTreeChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"Makefile": "good:\n\t@touch new\nback:\n\t@rm new\n", ".gitignore": "out\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "one"}} {
		if text, err := git(t.Context(), nil, args...); err != nil {
			t.Fatal(err, text)
		}
	}
	for range 2 {
		var out strings.Builder
		if err := run(t.Context(), []string{"phases", "--kept", "out/kept", "--passed", "out/passed", "--resume", "good", "back"}, &out); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "passed before") || !strings.Contains(out.String(), "the work tree changed") {
			t.Errorf("want both to run, and a line why nothing is recorded:\n%s", &out)
		}
		if passed := recordedPasses(t, "out/passed"); len(passed) > 0 {
			t.Errorf("recorded %v", passed)
		}
	}
}

// Nothing passes where make runs no commands, or goes on after those that fail.
func TestMakeThatRunsNothing(t *testing.T) {
	for flags, runs := range map[string]bool{"": true, "w": true, "k -j2 --no-print-directory": true, " -- PKG=int": true, "--no-print-directory": true,
		"PKG=int": true, "n": false, "kn -- PKG=1": false, "t": false, "q": false, "i": false} {
		if err := runsAll(flags); (err == nil) != runs {
			t.Errorf("MAKEFLAGS %q: got %v", flags, err)
		}
	}
}

// Two runs in one clone do not share what they keep.
func TestTwoRuns(t *testing.T) {
	release, err := lockDir(t.TempDir() + "/kept")
	if err != nil {
		t.Fatal(err)
	}
	release()
	dir := t.TempDir()
	release, err = lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "another run") {
		t.Errorf("lockDir twice: want one line that names the other run, got %v", err)
	}
	release()
	again, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestTallyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tally")
	one := tally{Passed: 2, Failed: []string{"a"}, Skipped: []skip{{"b", "c"}}}
	for range 2 {
		if err := one.save(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := loadTally(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != "4 passed, 2 failed, 2 skipped" {
		t.Errorf("loadTally: got %s", &got)
	}
	if got, err := loadTally(file + "-missing"); err != nil || !got.empty() {
		t.Errorf("loadTally of nothing: got %s, %v", &got, err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"phases"}, {"other", "x"}, {"gotest", "x"}, {"phases", "--make=make"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("run(%q): want an error", args)
		}
	}
}
