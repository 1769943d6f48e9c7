package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample is a package whose TestA fails while the file "A" exists, which it removes when it has failed unless
// the file "always" exists, and so on. While "dying" exists the package ends without a result, once.
const sample = `package sample

import (
	"os"
	"testing"
)

func check(t *testing.T) {
	file := t.Name()[len("Test"):][:1]
	if _, err := os.Stat(file); err != nil {
		return
	}
	if _, err := os.Stat("always"); err != nil {
		_ = os.Remove(file)
	}
	t.Error("fails on purpose")
}

func TestMain(m *testing.M) {
	if _, err := os.Stat("dying"); err == nil {
		_ = os.Remove("dying")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func TestA(t *testing.T) { t.Run("one", check) }
func TestB(t *testing.T) { check(t) }
func TestC(t *testing.T) { check(t) }
`

// module makes one of packages, each with files that make its tests fail.
func module(t *testing.T, packages map[string][]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/sample\n\ngo 1.26.0\n")
	for name, files := range packages {
		write(name+"/sample_test.go", sample)
		for _, file := range files {
			write(name+"/"+file, "")
		}
	}
	return dir
}

// gotestsum returns the path of the pinned one, which is built if need be.
func gotestsum(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "-C", "../../..", "-trimpath", "./cmd/parts", "gotestsum")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("cannot build gotestsum: %v", err)
	}
	return strings.TrimSpace(string(raw))
}

// What fails once on purpose is flaky, what always fails fails the run, and so does a sixth failure.
func TestEach(t *testing.T) {
	program := gotestsum(t)
	cases := map[string]struct {
		packages map[string][]string
		sum      string
		flaky    []string
		failed   string
	}{
		"Passes": {packages: map[string][]string{"a": nil, "b": nil}, sum: "6 passed, 0 failed, 0 skipped"},
		"Once":   {packages: map[string][]string{"a": {"A"}}, sum: "3 passed, 0 failed, 0 skipped", flaky: []string{"TestA/one example.org/sample/a"}},
		"Always": {
			packages: map[string][]string{"a": {"A", "always"}, "b": nil}, sum: "5 passed, 1 failed, 0 skipped",
			failed: "example.org/sample/a.TestA/one",
		},
		"DiesAndFlakes": {
			packages: map[string][]string{"a": {"dying", "B"}}, sum: "3 passed, 0 failed, 0 skipped",
			flaky: []string{" example.org/sample/a", "TestB example.org/sample/a"},
		},
		"Six": {
			packages: map[string][]string{"a": {"A", "B", "C"}, "b": {"A", "B", "C"}}, sum: "3 passed, 4 failed, 0 skipped",
			flaky:  []string{"TestA/one example.org/sample/a", "TestB example.org/sample/a", "TestC example.org/sample/a"},
			failed: "6 tests and packages failed at first; where more than 5 do, none counts as flaky",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv(tallyFile, filepath.Join(dir, "tally"))
			t.Setenv(flakyFile, filepath.Join(dir, "flaky"))
			t.Setenv(eventsDir, filepath.Join(dir, "events"))
			var out strings.Builder
			args := []string{"test", "--gotestsum", program, "-C", module(t, tc.packages), "--each", "--at-a-time", "1", "--"}
			err := run(t.Context(), append(args, "-trimpath", "-vet=off", "-count", "1"), &out)
			got, loadErr := loadTally(filepath.Join(dir, "tally"))
			if loadErr != nil {
				t.Fatal(loadErr)
			}
			if (err != nil) != (tc.failed != "") || err != nil && !errors.Is(err, errFailed) {
				t.Errorf("want failure %t, got %v", tc.failed != "", err)
			}
			if got.String() != tc.sum || !strings.Contains(strings.Join(got.Failed, "\n"), tc.failed) {
				t.Errorf("want %s, failed %q, got %s, failed %q\n%s", tc.sum, tc.failed, &got, got.Failed, &out)
			}
			if diff := cmp.Diff(tc.flaky, flakyIn(t, filepath.Join(dir, "flaky"))); diff != "" {
				t.Errorf("flaky: -want, +got:\n%s", diff)
			}
		})
	}
}

// Tests that the record names run by themselves; one that is not there fails the run.
func TestShards(t *testing.T) {
	program, dir := gotestsum(t), module(t, map[string][]string{"a": nil})
	t.Setenv(tallyFile, "")
	for tests, sum := range map[string]string{"TestA|TestC": "3 passed, 0 failed, 0 skipped\n", "TestGone": "3 passed, 1 failed, 0 skipped\n"} {
		t.Setenv(eventsDir, t.TempDir())
		path := filepath.Join(t.TempDir(), "record")
		if err := os.WriteFile(path, []byte("example.org/sample/a\t1\tplane\nexample.org/sample/a#"+tests+"\t1\talone\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := run(t.Context(), []string{"test", "--gotestsum", program, "-C", dir, "--each", "--record", path, "--", "-trimpath", "-vet=off"}, &out)
		if !strings.HasSuffix(out.String(), sum) || (err != nil) != (tests == "TestGone") {
			t.Errorf("%s: want %q, got %v\n%s", tests, sum, err, &out)
		}
	}
}

// flakyIn returns test and package of each line of a file.
func flakyIn(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(raw)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 4 {
			t.Fatalf("want test, package, seconds and pressure, got %q", line)
		}
		names = append(names, fields[0]+" "+fields[1])
	}
	return names
}

// What passed according to its events does not run again; what was interrupted does.
func TestEachResumes(t *testing.T) {
	program := gotestsum(t)
	dir, events := module(t, map[string][]string{"a": nil, "b": {"A", "always"}}), t.TempDir()
	t.Setenv(eventsDir, events)
	t.Setenv(tallyFile, "")
	args := []string{"test", "--gotestsum", program, "-C", dir, "--each", "--at-a-time", "1", "--", "-trimpath", "-vet=off", "-count", "1"}
	var out strings.Builder
	if err := run(t.Context(), args, &out); !errors.Is(err, errFailed) {
		t.Fatalf("want it to fail, got %v\n%s", err, &out)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "b/A")), os.WriteFile(filepath.Join(dir, "a/A"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("want a to be left out, and b to pass, got %v\n%s", err, &out)
	}
	if !strings.HasSuffix(out.String(), "6 passed, 0 failed, 0 skipped\n") {
		t.Errorf("want all to be counted, got:\n%s", &out)
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if err := run(ended, args, &out); !errors.Is(err, errFailed) || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("want an interrupted run to fail, got %v", err)
	}
}

// Unit tests run together and are never repeated.
func TestTogether(t *testing.T) {
	t.Setenv(tallyFile, "")
	t.Setenv(eventsDir, t.TempDir())
	var out strings.Builder
	dir := module(t, map[string][]string{"a": {"A"}, "b": nil})
	args := []string{"test", "--gotestsum", gotestsum(t), "-C", dir, "--", "-trimpath", "-vet=off", "-count", "1"}
	if err := run(t.Context(), args, &out); !errors.Is(err, errFailed) || !strings.Contains(out.String(), "fails on purpose") {
		t.Errorf("want the failure and its output, got %v\n%s", err, &out)
	}
	if !strings.HasSuffix(out.String(), "5 passed, 1 failed, 0 skipped\n") {
		t.Errorf("want all counted, got:\n%s", &out)
	}
}

// A run of unit tests that was killed before it had begun with some packages runs again when it is resumed, and one
// that was whole does not.
func TestTogetherResumes(t *testing.T) {
	program, dir, events := gotestsum(t), module(t, map[string][]string{"a": nil, "b": nil}), t.TempDir()
	t.Setenv(tallyFile, "")
	t.Setenv(eventsDir, events)
	begun := (&tester{kept: events}).eventsOf("together "+dir, 1)
	killed := `{"Action":"start","Package":"example.org/sample/a"}` + "\n" + `{"Action":"pass","Package":"example.org/sample/a"}` + "\n"
	if err := os.WriteFile(begun, []byte(killed), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		var out strings.Builder
		if err := run(t.Context(), []string{"test", "--gotestsum", program, "-C", dir, "--", "-trimpath", "-vet=off"}, &out); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if !strings.HasSuffix(out.String(), "6 passed, 0 failed, 0 skipped\n") || strings.Contains(out.String(), "does not run again") != again {
			t.Errorf("want all six, left out: %t, got:\n%s", again, &out)
		}
	}
}

// A name that no test has is no pass.
func TestNoTestRan(t *testing.T) {
	program, dir := gotestsum(t), module(t, map[string][]string{"a": nil})
	t.Setenv(tallyFile, "")
	for _, how := range [][]string{{"--each"}, nil} {
		t.Setenv(eventsDir, t.TempDir())
		var out strings.Builder
		args := append(append([]string{"test", "--gotestsum", program, "-C", dir}, how...), "--", "-trimpath", "-vet=off", "-run=TestTypo")
		if err := run(t.Context(), args, &out); !errors.Is(err, errFailed) || !strings.Contains(out.String(), "no test ran of ./... with") {
			t.Errorf("%v: want it to fail with the reason, got %v\n%s", how, err, &out)
		}
	}
}
