package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEventually(t *testing.T) {
	odd := errors.New("it is odd")
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("Ctrl-C"))

	cases := map[string]struct {
		ctx  context.Context //nolint:containedctx // A test case.
		f    func(context.Context) error
		want []string
	}{
		"AtOnce":   {ctx: t.Context(), f: func(context.Context) error { return nil }},
		"Never":    {ctx: t.Context(), f: func(context.Context) error { return odd }, want: []string{"waited ", "for evenness: it is odd"}},
		"CutShort": {ctx: t.Context(), f: cutShort(odd), want: []string{"waited ", "for evenness: it is odd"}},
		"Ended":    {ctx: ended, f: func(context.Context) error { return odd }, want: []string{"gave up waiting for evenness", "Ctrl-C", "it is odd"}},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := Eventually(tc.ctx, "evenness", 250*time.Millisecond, tc.f)
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("got %v", err)
			}

			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %q", want, err)
				}
			}
		})
	}
}

// cutShort fails with err the first time, and then only when its context ends.
func cutShort(err error) func(context.Context) error {
	first := true

	return func(ctx context.Context) error {
		if first {
			first = false
			return err
		}

		<-ctx.Done()

		return ctx.Err()
	}
}

// TestPatience: a busy machine gets more time than an idle one, within limits.
func TestPatience(t *testing.T) {
	cpus := float64(runtime.NumCPU())

	pressure := func(percent string) string {
		return "some avg10=" + percent + " avg60=1.00 avg300=1.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	}
	for name, tc := range map[string]struct {
		container, machine, load string
		want                     float64
	}{
		"Idle":          {machine: pressure("0.00"), load: "50.00 1.00 1.00 1/300 4711\n", want: leastPatience},
		"Busy":          {machine: pressure("75.00"), want: 4 * leastPatience},
		"Drowned":       {machine: pressure("100.00"), want: mostPatience},
		"FewProcessors": {container: pressure("50.00"), machine: pressure("0.00"), want: 2 * leastPatience},
		"BusyMachine":   {container: pressure("0.00"), machine: pressure("50.00"), want: 2 * leastPatience},
		"IdleByLoad":    {load: "0.05 0.10 0.20 1/300 4711\n", want: leastPatience},
		"BusyByLoad":    {load: fmt.Sprintf("%.2f 1.00 1.00 1/300 4711\n", 4*cpus), want: 4 * leastPatience},
		"DrownedByLoad": {load: fmt.Sprintf("%.2f 1.00 1.00 1/300 4711\n", 400*cpus), want: mostPatience},
		"Unknown":       {want: 2 * leastPatience},
		"Garbled":       {machine: "?", load: "?", want: 2 * leastPatience},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{pressures[0]: tc.container, pressures[1]: tc.machine, "/proc/loadavg": tc.load}
			got := factor(func(name string) ([]byte, error) {
				if files[name] == "" {
					return nil, os.ErrNotExist
				}

				return []byte(files[name]), nil
			})
			if got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// TestPatienceEnds: what takes seconds gets the whole factor, a long wait minutes and not hours.
func TestPatienceEnds(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		2 * time.Second:  2 * mostPatience * time.Second,
		time.Minute:      mostWait,
		10 * time.Minute: 20 * time.Minute,
	} {
		if got := patience(d, mostPatience); got != want {
			t.Errorf("%s on a drowned machine: want %s, got %s", d, want, got)
		}
	}
}

// TestBudget: a wait takes as long as the machine is busy while it goes on, and not as busy as it was in the beginning.
func TestBudget(t *testing.T) {
	began := time.Now()

	for name, tc := range map[string]struct {
		factors []float64 // of a minute each
		left    bool
	}{
		"Quiet":      {factors: []float64{leastPatience, leastPatience}},
		"Busy":       {factors: []float64{mostPatience, mostPatience, mostPatience}, left: true},
		"QuietAgain": {factors: []float64{mostPatience, leastPatience, leastPatience}},
		"BusyLater":  {factors: []float64{leastPatience, mostPatience, mostPatience}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			b, left := budget{left: time.Minute, at: began}, true
			for i, f := range tc.factors {
				left = b.spend(began.Add(time.Duration(i+1)*time.Minute), f)
			}

			if left != tc.left {
				t.Errorf("want time left: %v, got %v", tc.left, b.left)
			}
		})
	}
}

// TestCollectingLess: GOGC that is set stays.
func TestCollectingLess(t *testing.T) {
	for _, tc := range []struct{ in, want []string }{
		{[]string{"A=1"}, []string{"A=1", "GOGC=300"}},
		{[]string{"GOGC=50", "A=1"}, []string{"GOGC=50", "A=1"}},
	} {
		if got := collectingLess(tc.in); !slices.Equal(got, tc.want) {
			t.Errorf("%q: want %q, got %q", tc.in, tc.want, got)
		}
	}
}

func TestDecode(t *testing.T) {
	cases := map[string]struct {
		in      string
		want    []string
		wantErr string
	}{
		"Empty":    {in: "\n---\n# nothing\n---\n"},
		"Two":      {in: "{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n{apiVersion: v1, kind: B, metadata: {name: b}}", want: []string{"A a", "B b"}},
		"JSON":     {in: `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`, want: []string{"A a"}},
		"List":     {in: "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: A, metadata: {name: a}}]}", want: []string{"A a"}},
		"NoName":   {in: "---\n{apiVersion: v1, kind: A}", wantErr: `name ""`},
		"NotYAML":  {in: "a: b: c", wantErr: "cannot read document 1"},
		"NoObject": {in: "[1, 2]", wantErr: "cannot read document 1"},
	}

	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objs, err := Decode([]byte(tc.in))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("want an error with %q, got %v", tc.wantErr, err)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			var got []string
			for _, o := range objs {
				got = append(got, o.GetKind()+" "+o.GetName())
			}

			if strings.Join(got, ",") != strings.Join(tc.want, ",") {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

func TestWorkDirRefusesOthersFiles(t *testing.T) {
	dir := t.TempDir()

	mine := filepath.Join(dir, "etcd")
	if err := os.WriteFile(mine, []byte("not yours"), 0o600); err != nil {
		t.Fatal(err)
	}

	if _, err := openWorkDir(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("want an error that names the directory, got %v", err)
	}

	if _, err := os.Stat(mine); err != nil {
		t.Errorf("it removed a file that is not its own: %v", err)
	}
}

func TestLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	text := "an earlier run: address already in use\n" + strings.Repeat("a line\n", 30) + strings.Repeat("x", 1000) + "\nlast\n"

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	got := logTail(path, 0)
	if n := strings.Count(got, "\n"); n != logLines {
		t.Errorf("want %d lines, got %d", logLines, n)
	}

	if !strings.HasSuffix(got, "…\n  last") {
		t.Errorf("want a shortened line and the last one, got %q", got)
	}

	first := int64(strings.Index(text, "\n"))
	if !portTaken(path, 0) || portTaken(path, first) {
		t.Error("only what follows the offset counts")
	}
}

// TestLogsOfFailedTests: logs of a temporary directory are kept where tests have failed and something is to have them, and no other time.
func TestLogsOfFailedTests(t *testing.T) {
	cases := map[string]struct {
		reason string
		code   int
		unset  bool
		want   int
	}{
		"Failed":   {reason: "they may show why", code: 1, want: 1},
		"Passed":   {reason: "nothing is to be explained", code: 0},
		"Unwanted": {reason: "nothing is to have them", code: 1, unset: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(t.TempDir(), "logs")
			if t.Setenv(logsVariable, to); tc.unset {
				t.Setenv(logsVariable, "")
			}
			defer failed.Store(failed.Load())
			var d *workDir
			require.Equal(t, tc.code, Main(tests(tc.code), func(context.Context) (func(), error) {
				var err error
				if d, err = openWorkDir(""); err != nil {
					return nil, err
				}
				return func() { assert.NoError(t, d.close()) }, os.WriteFile(filepath.Join(d.path, dirLogs, "gate.log"), []byte("why"), 0o600)
			}))
			assert.NoDirExists(t, d.path)
			kept, err := filepath.Glob(filepath.Join(to, "*", "gate.log"))
			require.NoError(t, err)
			assert.Len(t, kept, tc.want, tc.reason)
		})
	}
}

// tests that end with a code.
type tests int

func (t tests) Run() int { return int(t) }
