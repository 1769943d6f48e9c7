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

func TestParser(t *testing.T) {
	cases := map[string]struct {
		reason string
		events string
		want   tally
		shows  string
	}{
		"Leaves": {
			reason: "A test with subtests is not counted beside them.",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"run","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1}
`,
			want:  tally{Passed: 2},
			shows: "ok    p 1.0s",
		},
		"FailedSubtest": {
			reason: "What fails because of its subtest is no second failure.",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"output","Package":"p","Test":"TestA/one","Output":"    a_test.go:3: broken\n"}
{"Action":"fail","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`,
			want:  tally{Failed: []string{"p.TestA/one"}},
			shows: "broken",
		},
		"FailedByItself": {
			reason: "A test that fails although its subtests pass is a failure.",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`,
			want:  tally{Passed: 1, Failed: []string{"p.TestA"}},
			shows: "FAIL  p",
		},
		"Skipped": {
			reason: "A skip is named with its reason.",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: no terraform here\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`,
			want:  tally{Skipped: []skip{{"p.TestA", "a_test.go:3: no terraform here"}}},
			shows: "no terraform here",
		},
		"DoesNotBuild": {
			reason: "A package that fails without a test is one failure.",
			events: `{"ImportPath":"p","Action":"build-output","Output":"p/a.go:3: undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`,
			want:  tally{Failed: []string{"p"}},
			shows: "undefined: x",
		},
		"Panic": {
			reason: "What a test that never ends has printed is shown.",
			events: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oh\n"}
{"Action":"fail","Package":"p"}
`,
			want:  tally{Failed: []string{"p"}},
			shows: "panic: oh",
		},
		"NoTests": {
			reason: "A package without tests is nothing.",
			events: `{"Action":"skip","Package":"p"}` + "\n",
		},
		"NoJSON": {
			reason: "What is no JSON is shown as it is.",
			events: "go: no such module\n",
			shows:  "go: no such module",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			p := &parser{out: &out, tests: map[string]*test{}}
			if err := p.read(strings.NewReader(tc.events)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, p.tally); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
			if !strings.Contains(out.String(), tc.shows) {
				t.Errorf("%s\nwant %q shown, got:\n%s", tc.reason, tc.shows, &out)
			}
		})
	}
}

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

// A phase that passed is not run again for the same version, and its tests still count.
func TestResume(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	makefile := "good:\n\t@echo x >> good.log\nbad:\n\t@echo x >> bad.log; test -f repaired\n"
	if err := os.WriteFile("Makefile", []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	times := func(name string) int {
		raw, err := os.ReadFile(name + ".log")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "x")
	}
	steps := []struct {
		reason, version string
		repaired        bool
		good, bad       int
		sum             string
	}{
		{reason: "Both run.", version: "v1", good: 1, bad: 1, sum: "1 passed, 1 failed, 0 skipped"},
		{reason: "What failed runs again.", version: "v1", repaired: true, good: 1, bad: 2, sum: "2 passed, 0 failed, 0 skipped"},
		{reason: "Both passed.", version: "v1", good: 1, bad: 2, sum: "2 passed, 0 failed, 0 skipped"},
		{reason: "Another version is another thing.", version: "v2", good: 2, bad: 3, sum: "2 passed, 0 failed, 0 skipped"},
	}
	for _, s := range steps {
		if s.repaired {
			if err := os.WriteFile("repaired", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		err := run(t.Context(), []string{"phases", "--done", filepath.Join(dir, "done"), "--version", s.version, "good", "bad"}, &out)
		if failed := strings.Contains(s.sum, "1 failed"); (err != nil) != failed {
			t.Errorf("%s got error %v", s.reason, err)
		}
		if times("good") != s.good || times("bad") != s.bad || !strings.HasSuffix(out.String(), s.sum+"\n") {
			t.Errorf("%s Got %d and %d runs, want %d and %d, and %q in:\n%s", s.reason, times("good"), times("bad"), s.good, s.bad, s.sum, &out)
		}
	}
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
	for _, args := range [][]string{nil, {"phases"}, {"other", "x"}, {"phases", "--make=make"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("run(%q): want an error", args)
		}
	}
}
