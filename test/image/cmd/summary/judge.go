package main

import (
	"maps"
	"slices"
	"strings"
)

// flake is a test, or where it has no name a whole package, that failed and then passed with
// nothing changed.
type flake struct {
	Test    string  `json:"test,omitempty"`
	Package string  `json:"package"`
	Seconds float64 `json:"seconds"`
	// Pressure is the share of the time, in percent, in which a process waited for a processor
	// when the test failed; negative where it is not known.
	Pressure float64 `json:"pressure"`
}

func (f flake) String() string {
	if f.Test == "" {
		return f.Package
	}
	return f.Package + "." + f.Test
}

// attempt is one start of gotestsum on a package: a whole execution, and those of the tests
// that were repeated.
type attempt []*execution

// judgement of a package by all attempts at it.
type judgement struct {
	tally
	// failures is how many of the tests that are repeated by themselves failed at first, and how often the package died.
	failures int
	// seconds that the last whole execution took.
	seconds float64
	// again means that the package died and is to be repeated, whole.
	again bool
}

// judge a package by the attempts at it, at least one, of which each but the last died. What failed
// in an attempt and passed when it was repeated is flaky. With subtests they are repeated by themselves,
// and else their top-level test is.
func judge(pkg string, attempts []attempt, subtests bool, pressure func(*result) float64) judgement {
	var j judgement
	for _, a := range attempts[:len(attempts)-1] {
		j.failures++
		j.Flaky = append(j.Flaky, flake{Package: pkg, Seconds: secondsOf(a), Pressure: -1})
	}
	last := attempts[len(attempts)-1]
	j.seconds = secondsOf(last)
	switch {
	case len(last) == 0 || last[0].died():
		j.again = len(attempts) == 1
		j.failures++
		j.Failed, j.Flaky = append(j.Failed, pkg), nil
		return j
	case last[0].unbuilt:
		j.failures++
		j.Failed, j.Flaky = append(j.Failed, pkg), nil
		return j
	}
	repeated := rootOf
	if subtests {
		repeated = func(name string) string { return name }
	}
	causes := map[string]bool{}
	for _, name := range last[0].failed() {
		causes[repeated(name)] = true
		if last.passedLater(repeated(name)) {
			t := last[0].tests[name]
			j.Flaky = append(j.Flaky, flake{Test: name, Package: pkg, Seconds: t.elapsed, Pressure: pressure(t)})
		} else {
			j.Failed = append(j.Failed, pkg+"."+name)
		}
	}
	j.failures += len(causes)
	last.count(pkg, &j.tally)
	return j
}

// passedLater reports whether a test passed when it was repeated.
func (a attempt) passedLater(name string) bool {
	return slices.ContainsFunc(a[1:], func(x *execution) bool {
		return x.tests[name] != nil && x.tests[name].action == actionPass && x.result == actionPass
	})
}

// count what passed and what was skipped, by the last result of each test that has no subtests.
func (a attempt) count(pkg string, t *tally) {
	final := map[string]*result{}
	for _, x := range a {
		maps.Copy(final, x.tests)
	}
	names := slices.Sorted(maps.Keys(final))
	for i, name := range names {
		leaf := i+1 == len(names) || !slices.ContainsFunc(names[i+1:], func(n string) bool { return strings.HasPrefix(n, name+"/") })
		switch final[name].action {
		case actionPass:
			if leaf {
				t.Passed++
			}
		case actionSkip:
			t.Skipped = append(t.Skipped, skip{Name: pkg + "." + name, Why: final[name].why()})
		}
	}
}

func (t *result) why() string {
	if t.reason == "" {
		return "no reason given"
	}
	return t.reason
}

func secondsOf(a attempt) float64 {
	if len(a) == 0 {
		return 0
	}
	return a[0].elapsed
}
