package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// subtests is a package of which each subtest appends its name to the file "log", and fails while a file of its name
// exists, which it removes when it has failed unless the file "always" exists. TestChain/second builds on the first.
const subtests = `package sample

import (
	"os"
	"path"
	"testing"
)

func check(t *testing.T) {
	log, err := os.OpenFile("log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	file := path.Base(t.Name())
	_, _ = log.WriteString(file + "\n")
	if _, err := os.Stat(file); err != nil {
		return
	}
	if _, err := os.Stat("always"); err != nil {
		_ = os.Remove(file)
	}
	t.Error("fails on purpose")
}

func TestMany(t *testing.T) {
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		t.Run("of/"+name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}

func TestChain(t *testing.T) {
	first := false
	t.Run("first", func(t *testing.T) {
		first = true
		check(t)
	})
	t.Run("second", func(t *testing.T) {
		if !first {
			t.Fatal("the first did not run")
		}
		check(t)
	})
}
`

// Of a package whose subtests are recorded to be independent only those that failed are repeated, and of others the whole
// test. In both what fails once is flaky, and what always fails fails the run.
func TestSubtests(t *testing.T) {
	program := gotestsum(t)
	once := map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "first": 1, "second": 1}
	cases := map[string]struct {
		reason string
		alone  bool
		fail   []string
		// ran is how often subtests ran that did not run once.
		ran    map[string]int
		flaky  []string
		failed []string
	}{
		"Alone": {
			reason: "Nothing runs again but what failed.", alone: true, fail: []string{"b", "e"}, ran: map[string]int{"b": 2, "e": 2},
			flaky: []string{"TestMany/of/b example.org/sample/a", "TestMany/of/e example.org/sample/a"},
		},
		"AloneAlways": {
			reason: "It is repeated twice, and nothing else is.", alone: true, fail: []string{"b", "always"}, ran: map[string]int{"b": 3},
			failed: []string{"example.org/sample/a.TestMany/of/b"},
		},
		"AloneSix": {
			reason: "Subtests count as tests: six that fail are not repeated.", alone: true, fail: []string{"a", "b", "c", "d", "e", "f"},
			failed: []string{"example.org/sample/a.TestMany/of/a", "example.org/sample/a.TestMany/of/b", "example.org/sample/a.TestMany/of/c",
				"example.org/sample/a.TestMany/of/d", "example.org/sample/a.TestMany/of/e", "example.org/sample/a.TestMany/of/f"},
		},
		"AloneInChain": {
			reason: "A subtest that builds on another one cannot pass by itself: such a package must not be recorded so.", alone: true,
			fail: []string{"second"}, failed: []string{"example.org/sample/a.TestChain/second"},
		},
		"Whole": {
			reason: "Subtests that build on each other are repeated from their root.", fail: []string{"second"},
			ran: map[string]int{"first": 2, "second": 2}, flaky: []string{"TestChain/second example.org/sample/a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			module, out := module(t, map[string][]string{"a": tc.fail}), t.TempDir()
			line := "example.org/sample/a\t1\tplane"
			if tc.alone {
				line += "\tsubtests"
			}
			sample, list := filepath.Join(module, "a/sample_test.go"), filepath.Join(out, "record")
			if err := errors.Join(os.WriteFile(sample, []byte(subtests), 0o600), os.WriteFile(list, []byte(line+"\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			t.Setenv(tallyFile, filepath.Join(out, "tally"))
			t.Setenv(flakyFile, filepath.Join(out, "flaky"))
			t.Setenv(eventsDir, filepath.Join(out, "events"))
			var shown strings.Builder
			args := []string{"test", "--gotestsum", program, "-C", module, "--each", "--record", list, "--", "-trimpath", "-vet=off", "-count", "1"}
			err := run(t.Context(), args, &shown)
			got, loadErr := loadTally(filepath.Join(out, "tally"))
			if loadErr != nil {
				t.Fatal(loadErr)
			}
			if (err != nil) != (tc.failed != nil) || err != nil && !errors.Is(err, errFailed) {
				t.Errorf("%s Got %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.failed, got.Failed); diff != "" {
				t.Errorf("%s Failed: -want, +got:\n%s\n%s", tc.reason, diff, &shown)
			}
			if diff := cmp.Diff(tc.flaky, flakyIn(t, filepath.Join(out, "flaky"))); diff != "" {
				t.Errorf("%s Flaky: -want, +got:\n%s", tc.reason, diff)
			}
			want := maps.Clone(once)
			maps.Copy(want, tc.ran)
			if diff := cmp.Diff(want, timesIn(t, filepath.Join(module, "a/log"))); diff != "" {
				t.Errorf("%s Times: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// timesIn returns how often a file has each line.
func timesIn(t *testing.T, path string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, name := range strings.Fields(string(raw)) {
		times[name]++
	}
	return times
}
