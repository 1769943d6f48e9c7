package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines of events of package p: "run TestA", "fail TestA", "output TestA panic: oh"; "pass", "fail" without a
// test are the package's, "unbuilt" its failure to build.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		action, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		test, output, _ := strings.Cut(rest, " ")
		switch {
		case action == "":
		case action == "unbuilt":
			b.WriteString(`{"Action":"start","Package":"p"}` + "\n" + `{"Action":"fail","Package":"p","FailedBuild":"p"}` + "\n")
		case action == "raw":
			b.WriteString(rest + "\n")
		case test == "":
			b.WriteString(`{"Action":"` + action + `","Package":"p","Elapsed":1}` + "\n")
		case test == "-":
			b.WriteString(`{"Action":"` + action + `","Package":"p","Output":"` + output + `\n"}` + "\n")
		default:
			b.WriteString(`{"Action":"` + action + `","Package":"p","Test":"` + test + `","Elapsed":2,"Output":"` + output + `\n"}` + "\n")
		}
	}
	return b.String()
}

// died is the package, which failed as a whole.
var died = []string{"p"}

// judgeCase is the events of each attempt, and what is made of them.
type judgeCase struct {
	reason   string
	attempts []string
	subtests bool
	want     judgement
}

// testJudge judges attempts of package p.
func testJudge(t *testing.T, cases map[string]judgeCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var attempts []attempt
			for _, text := range tc.attempts {
				a, err := parseEvents(strings.NewReader(lines(text)))
				if err != nil {
					t.Fatal(err)
				}
				attempts = append(attempts, a)
			}
			got := judge("p", attempts, tc.subtests, func(*result) float64 { return 7 })
			got.seconds = 0
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(judgement{})); diff != "" {
				t.Errorf("%s\n-want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestJudge: which tests count, and as what.
func TestJudge(t *testing.T) {
	testJudge(t, map[string]judgeCase{
		"Leaves": {
			reason:   "A test with subtests is not counted beside them.",
			attempts: []string{"start\nrun TestA\nrun TestA/one\nrun TestA/two\npass TestA/one\npass TestA/two\npass TestA\nrun TestAB\npass TestAB\npass"},
			want:     judgement{tally: tally{Passed: 3}},
		},
		"FailedSubtest": {
			reason:   "What fails because of its subtest is no second failure.",
			attempts: []string{"start\nrun TestA\nrun TestA/one\nfail TestA/one\nfail TestA\nfail"},
			want:     judgement{tally: tally{Failed: []string{"p.TestA/one"}}, failures: 1},
		},
		"FailedByItself": {
			reason:   "A test that fails although its subtests pass is a failure.",
			attempts: []string{"start\nrun TestA\nrun TestA/one\npass TestA/one\nfail TestA\nfail"},
			want:     judgement{tally: tally{Passed: 1, Failed: []string{"p.TestA"}}, failures: 1},
		},
		"Skipped": {
			reason:   "A skip is named with its reason.",
			attempts: []string{"start\nrun TestA\noutput TestA a_test.go:3: no terraform here\noutput TestA --- SKIP: TestA\nskip TestA\npass"},
			want:     judgement{tally: tally{Skipped: []skip{{"p.TestA", "a_test.go:3: no terraform here"}}}},
		},
	})
}

// TestJudgeRepeated: what the repetition of a test that failed shows.
func TestJudgeRepeated(t *testing.T) {
	testJudge(t, map[string]judgeCase{
		"Flaky": {
			reason:   "A test that fails and passes when it is repeated is flaky, and passed.",
			attempts: []string{"start\nrun TestA\nfail TestA\nrun TestB\npass TestB\nfail\nstart\nrun TestA\npass TestA\npass"},
			want:     judgement{tally: tally{Passed: 2, Flaky: []flake{{Test: "TestA", Package: "p", Seconds: 2, Pressure: 7}}}, failures: 1},
		},
		"FlakyAtLast": {
			reason: "It may be repeated twice, and what an aborted test did not reach counts when it is repeated.",
			attempts: []string{"start\nrun TestA\nrun TestA/1\nfail TestA/1\nfail TestA\nfail\nstart\nrun TestA\nrun TestA/1\nfail TestA/1\nfail TestA\nfail\n" +
				"start\nrun TestA\nrun TestA/1\nrun TestA/2\npass TestA/1\npass TestA/2\npass TestA\npass"},
			want: judgement{tally: tally{Passed: 2, Flaky: []flake{{Test: "TestA/1", Package: "p", Seconds: 2, Pressure: 7}}}, failures: 1},
		},
		"Repeats": {
			reason:   "A failure that repeats is one.",
			attempts: []string{"start\nrun TestA\nfail TestA\nfail\nstart\nrun TestA\nfail TestA\nfail\nstart\nrun TestA\nfail TestA\nfail"},
			want:     judgement{tally: tally{Failed: []string{"p.TestA"}}, failures: 1},
		},
		"PackageFailsWhileTestPasses": {
			reason:   "A repetition whose package fails proves nothing.",
			attempts: []string{"start\nrun TestA\nfail TestA\nfail\nstart\nrun TestA\npass TestA\nfail"},
			want:     judgement{tally: tally{Passed: 1, Failed: []string{"p.TestA"}}, failures: 1},
		},
		"FlakySubtests": {
			reason: "Where subtests are repeated by themselves, each is flaky or not, and counts.", subtests: true,
			attempts: []string{"start\nrun TestA\nrun TestA/1\nrun TestA/2\nfail TestA/1\nfail TestA/2\nfail TestA\nfail\n" +
				"start\nrun TestA\nrun TestA/1\npass TestA/1\npass TestA\npass\nstart\nrun TestA\nrun TestA/2\nfail TestA/2\nfail TestA\nfail"},
			want: judgement{tally: tally{Passed: 1, Failed: []string{"p.TestA/2"}, Flaky: []flake{{Test: "TestA/1", Package: "p", Seconds: 2, Pressure: 7}}},
				failures: 2},
		},
	})
}

// TestJudgeDied: a package whose tests have no results is one failure, and is repeated once as a whole if it was built.
func TestJudgeDied(t *testing.T) {
	testJudge(t, map[string]judgeCase{
		"Unbuilt": {
			reason:   "A package that does not build is one failure, and not repeated.",
			attempts: []string{"unbuilt"},
			want:     judgement{tally: tally{Failed: died}, failures: 1},
		},
		"Panic": {
			reason:   "A panic leaves tests that never ran; the package is repeated whole.",
			attempts: []string{"start\nrun TestA\noutput TestA panic: oh\nfail TestA\nfail"},
			want:     judgement{tally: tally{Failed: died}, failures: 1, again: true},
		},
		"Main": {
			reason: "A package that fails without a test is repeated whole, although gotestsum's own repetition, which runs no test, passes.",
			attempts: []string{`start
				output - cannot start: no port
				output - exit status 1
				fail
				start
				pass`},
			want: judgement{tally: tally{Failed: died}, failures: 1, again: true},
		},
		"ExitStatus": {
			reason:   "Another exit status than that of a failed test is no result of tests.",
			attempts: []string{"start\nrun TestA\npass TestA\nrun TestB\nfail TestB\noutput - exit status 3\nfail"},
			want:     judgement{tally: tally{Failed: died}, failures: 1, again: true},
		},
		"Exit": {
			reason:   "A test that ends the process leaves others that did not run, though the exit status is that of a failed test.",
			attempts: []string{"start\nrun TestA\npass TestA\nrun TestB\noutput - exit status 1\nfail"},
			want:     judgement{tally: tally{Failed: died}, failures: 1, again: true},
		},
		"Killed": {
			reason:   "Events that end in a line that is cut off are those of a package that died.",
			attempts: []string{"start\nrun TestA\npass TestA\nraw {\"Action\":\"pass\",\"Pack"},
			want:     judgement{tally: tally{Failed: died}, failures: 1, again: true},
		},
		"Nothing": {
			reason:   "No events are no pass.",
			attempts: []string{""},
			want:     judgement{tally: tally{Failed: died}, failures: 1, again: true},
		},
		"DiedOnce": {
			reason:   "A package that dies and passes when it is repeated is flaky.",
			attempts: []string{"start\noutput - signal: killed\nfail", "start\nrun TestA\npass TestA\npass"},
			want:     judgement{tally: tally{Passed: 1, Flaky: []flake{{Package: "p", Seconds: 1, Pressure: -1}}}, failures: 1},
		},
		"DiedTwice": {
			reason:   "A package is repeated once.",
			attempts: []string{"start\noutput - signal: killed\nfail", "start\noutput - signal: killed\nfail"},
			want:     judgement{tally: tally{Failed: died}, failures: 2},
		},
	})
}
