package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Actions of an event.
const (
	actionStart  = "start"
	actionRun    = "run"
	actionOutput = "output"
	actionPass   = "pass"
	actionFail   = "fail"
	actionSkip   = "skip"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Time        time.Time
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// execution of the tests of a package: one start of its test binary.
type execution struct {
	pkg string
	// result is actionPass, actionFail or actionSkip; empty where the events end before it.
	result string
	// elapsed is in seconds.
	elapsed float64
	tests   map[string]*result
	// unbuilt means that the test binary could not be built.
	unbuilt bool
	// crashed means that the output shows an end by something else than the result of its tests.
	crashed bool
}

// result of one test in an execution.
type result struct {
	// action is the last of the test; actionRun where it did not end.
	action  string
	at      time.Time
	elapsed float64 // seconds
	// reason is the last line of output that is not the test framework's.
	reason string
}

// readEvents returns the executions in a file that gotestsum has written with --jsonfile, in
// the order in which they began. A last line that is cut off, by a process that was killed or a
// full disk, is ignored: its execution has no result then.
func readEvents(path string) ([]*execution, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read test events: %w", err)
	}
	defer func() { _ = f.Close() }()
	return parseEvents(f)
}

func parseEvents(r io.Reader) ([]*execution, error) {
	var all []*execution
	current := map[string]*execution{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Package != "" {
			x := current[e.Package]
			if x == nil || e.Action == actionStart {
				x = &execution{pkg: e.Package, tests: map[string]*result{}}
				current[e.Package], all = x, append(all, x)
			}
			x.add(e)
			if x.result != "" {
				delete(current, e.Package)
			}
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read test events: %w", err)
		}
	}
}

func (x *execution) add(e event) {
	if e.Action == actionOutput {
		x.crashed = x.crashed || isCrash(e.Output)
	}
	if e.Test == "" {
		switch e.Action {
		case actionPass, actionFail, actionSkip:
			x.result, x.elapsed, x.unbuilt = e.Action, e.Elapsed, e.FailedBuild != ""
		}
		return
	}
	t := x.tests[e.Test]
	if t == nil {
		t = &result{action: actionRun}
		x.tests[e.Test] = t
	}
	switch e.Action {
	case actionPass, actionFail, actionSkip:
		t.action, t.at, t.elapsed = e.Action, e.Time, e.Elapsed
	case actionOutput:
		if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "=== ") {
			t.reason = text
		}
	}
}

// isCrash reports whether a line of output is that of a test binary that ended otherwise than
// with all its tests run: a panic, a time-out, a signal, os.Exit.
func isCrash(line string) bool {
	code, exited := strings.CutPrefix(line, "exit status ")
	return exited && strings.TrimSpace(code) != "1" ||
		strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "signal: ")
}

// died reports whether the execution failed for another reason than the result of a test, so
// that some of its tests may not have run.
func (x *execution) died() bool {
	if x.unbuilt {
		return false
	}
	return x.result == "" || x.result == actionFail && (x.crashed || x.interrupted() || len(x.failedRoots()) == 0)
}

// interrupted reports whether a test did not end, as where it calls os.Exit.
func (x *execution) interrupted() bool {
	for _, t := range x.tests {
		if t.action == actionRun {
			return true
		}
	}
	return false
}

// failed returns the tests that failed or did not end, without those that failed because of a
// subtest, in the order of their names.
func (x *execution) failed() []string {
	var failed []string
	for name, t := range x.tests {
		if t.isFailed() {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	return slices.DeleteFunc(slices.Clone(failed), func(name string) bool {
		return slices.ContainsFunc(failed, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

func (t *result) isFailed() bool { return t.action == actionFail || t.action == actionRun }

// failedRoots returns the top-level tests that failed or did not end.
func (x *execution) failedRoots() []string {
	var roots []string
	for name, t := range x.tests {
		if !strings.Contains(name, "/") && t.isFailed() {
			roots = append(roots, name)
		}
	}
	slices.Sort(roots)
	return roots
}

// rootOf returns the name of the top-level test of a test.
func rootOf(name string) string {
	root, _, _ := strings.Cut(name, "/")
	return root
}
