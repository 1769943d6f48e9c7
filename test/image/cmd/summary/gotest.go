package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// grace is how long a test run may take to end after an interrupt.
const grace = 2 * time.Minute

// goTest runs go test with -json and shows packages, failures and skips.
func goTest(ctx context.Context, args []string, out io.Writer) error {
	command := []string{"test", "-json"}
	if args[0] == "-C" && len(args) > 1 {
		command, args = []string{"test", "-C", args[1], "-json"}, args[2:]
	}
	p := &parser{out: out, verbose: slices.Contains(args, "-v"), tests: map[string]*test{}}
	cmd := interruptible(ctx, "go", append(command, args...)...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("cannot run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot run go test: %w", err)
	}
	readErr := p.read(pipe)
	failed := cmd.Wait()
	if failed != nil && len(p.tally.Failed) == 0 {
		p.tally.Failed = append(p.tally.Failed, "go "+strings.Join(cmd.Args[1:], " "))
	}
	if err := errors.Join(readErr, p.tally.save(os.Getenv(tallyFile))); err != nil {
		return err
	}
	if failed != nil {
		return errFailed
	}
	return nil
}

// interruptible is a command that is interrupted, and given time to, when the
// context does.
func interruptible(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd
}

// event of go test -json (go doc test2json), and of go build -json.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

// test that runs.
type test struct {
	output           []string
	parent, reported bool
}

type parser struct {
	out     io.Writer
	verbose bool
	tally   tally
	tests   map[string]*test
	// counts of the package that reports, by name.
	failedIn map[string]int
}

func (p *parser) read(r io.Reader) error {
	p.failedIn = map[string]int{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				p.print(string(line))
			} else {
				p.event(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the output of go test: %w", err)
		}
	}
}

func (p *parser) event(e event) {
	switch e.Action {
	case "build-output":
		p.print(e.Output)
	case "run":
		p.run(e)
	case "output":
		p.output(e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.packageDone(e)
		} else {
			p.testDone(e)
		}
	}
}

func (p *parser) test(e event) *test {
	key := e.Package + " " + e.Test
	if p.tests[key] == nil {
		p.tests[key] = &test{}
	}
	return p.tests[key]
}

func (p *parser) run(e event) {
	p.test(e)
	for name, ok := above(e.Test); ok; name, ok = above(name) {
		p.test(event{Package: e.Package, Test: name}).parent = true
	}
}

func above(name string) (string, bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", false
	}
	return name[:i], true
}

// output of a test is kept until it is clear whether it matters; that of a
// package is shown at once, but for what the package line repeats.
func (p *parser) output(e event) {
	if p.verbose {
		p.print(e.Output)
		return
	}
	if e.Test != "" {
		t := p.test(e)
		t.output = append(t.output, e.Output)
		return
	}
	switch {
	case e.Output == "PASS\n", e.Output == "FAIL\n", strings.HasPrefix(e.Output, "ok  \t"),
		strings.HasPrefix(e.Output, "FAIL\t"), strings.HasPrefix(e.Output, "?   \t"), strings.HasPrefix(e.Output, "coverage: "):
	default:
		p.print(e.Output)
	}
}

func (p *parser) testDone(e event) {
	t, name := p.test(e), e.Package+"."+e.Test
	switch e.Action {
	case "fail":
		if !t.reported {
			p.tally.Failed = append(p.tally.Failed, name)
			p.failedIn[e.Package]++
			p.reported(e)
		}
		p.show(t)
	case "skip":
		p.tally.Skipped = append(p.tally.Skipped, skip{Name: name, Why: why(t.output)})
		p.show(t)
	case "pass":
		if !t.parent {
			p.tally.Passed++
		}
	}
	delete(p.tests, e.Package+" "+e.Test)
}

// reported: the tests above a failed one fail because of it.
func (p *parser) reported(e event) {
	for name, ok := above(e.Test); ok; name, ok = above(name) {
		p.test(event{Package: e.Package, Test: name}).reported = true
	}
}

func (p *parser) show(t *test) {
	for _, line := range t.output {
		if !strings.HasPrefix(line, "=== ") {
			p.print(line)
		}
	}
}

// why a test was skipped: its last words.
func why(output []string) string {
	for _, line := range slices.Backward(output) {
		text := strings.TrimSpace(line)
		if text != "" && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "=== ") {
			return text
		}
	}
	return "no reason given"
}

func (p *parser) packageDone(e event) {
	switch e.Action {
	case "pass":
		p.print(fmt.Sprintf("ok    %s %.1fs\n", e.Package, e.Elapsed))
	case "fail":
		if p.failedIn[e.Package] == 0 {
			p.tally.Failed = append(p.tally.Failed, e.Package)
			p.unfinished(e.Package)
		}
		p.print(fmt.Sprintf("FAIL  %s %.1fs\n", e.Package, e.Elapsed))
	}
}

// unfinished tests of a package that ended before them: a panic, a timeout.
func (p *parser) unfinished(pkg string) {
	for key, t := range p.tests {
		if strings.HasPrefix(key, pkg+" ") {
			p.show(t)
		}
	}
}

func (p *parser) print(text string) { _, _ = io.WriteString(p.out, text) }
