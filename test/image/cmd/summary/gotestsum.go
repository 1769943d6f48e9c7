package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// repeats is how often a test that failed is repeated.
	repeats = 2
	// mayFail is how many tests of a run may fail at first, of those that are repeated by themselves. Of more, none is flaky.
	mayFail = 5
	// grace is how long a process may take to end after an interrupt.
	grace = 2 * time.Minute
)

// command of gotestsum.
type command struct {
	program string
	dir     string
	// packages to test.
	packages []string
	// flags of go test, without packages.
	flags []string
	// events is the file that the events are written to.
	events string
	// repeatable is how many tests may fail and be repeated; 0 repeats none.
	repeatable int
	// subtests that failed are repeated without those beside them; else the top-level test is repeated, whole.
	subtests bool
	verbose  bool
}

func (c command) args() []string {
	format, hide := "pkgname", "skipped"
	if c.verbose {
		format, hide = "standard-verbose", "skipped,failed,output"
	}
	args := []string{"--format=" + format, "--format-icons=text", "--format-hide-empty-pkg", "--hide-summary=" + hide, "--jsonfile=" + c.events}
	if c.repeatable > 0 {
		args = append(args, fmt.Sprintf("--rerun-fails=%d", repeats), fmt.Sprintf("--rerun-fails-max-failures=%d", c.repeatable))
	}
	if c.repeatable > 0 && !c.subtests {
		args = append(args, "--rerun-fails-run-root-test")
	}
	return append(append(args, "--packages="+strings.Join(c.packages, " "), "--"), c.flags...)
}

// run gotestsum and return the executions that its events show, also where a test failed. An error means that
// there is nothing to judge.
func (c command) run(ctx context.Context, out io.Writer) (all []*execution, failed bool, err error) {
	cmd := interruptible(ctx, c.program, c.args()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, out, out
	runErr := cmd.Run()
	if exit := new(exec.ExitError); runErr != nil && !errors.As(runErr, &exit) && ctx.Err() == nil {
		return nil, false, fmt.Errorf("cannot run gotestsum: %w", runErr)
	}
	all, err = readEvents(c.events)
	return all, runErr != nil, err
}

// interruptible is a command that is interrupted when the context ends, and then has
// time to end.
func interruptible(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd
}
