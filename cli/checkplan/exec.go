package checkplan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Exec runs a command of Terraform or OpenTofu. What apply and destroy would do is planned and checked first, and exactly that plan is applied
// (KR-08-63). Every other command runs as it is.
type Exec struct {
	// Command line: the program, options that come before its subcommand, the subcommand, and its arguments.
	Command []string
	Getenv  func(string) string
	In      io.Reader
	// Out and Err are those of the program. The verdicts are written to Err.
	Out, Err io.Writer
}

// UsageError is a command line that Exec cannot check; nothing was run.
type UsageError struct{ Text string }

// Error returns the text.
func (e *UsageError) Error() string { return e.Text }

// RefusedError is the error for a plan that is not allowed, or cannot be read; nothing was applied. It has been printed.
type RefusedError struct{ Err error }

// Error returns the reason.
func (e *RefusedError) Error() string { return e.Err.Error() + "; nothing was applied" }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// stopWithin is how long the program has to stop after the context ends: it unlocks its state meanwhile.
const stopWithin = 30 * time.Second

// Run runs the command. An error of the program itself is an *exec.ExitError.
func (e Exec) Run(ctx context.Context) error {
	c, err := parse(e.Command)
	if err != nil {
		return err
	}
	reports, err := e.reports()
	switch {
	case err != nil:
		return err
	case !c.applies() && reports == nil:
		return e.run(ctx, e.Out, e.Command...)
	case !c.applies():
		return reports.run(ctx, c)
	case reports != nil:
		reports.forget() // what was planned before is no longer what a plan has
	}
	if _, err := inEnvironment(e.Getenv, time.Now()); err != nil { // before a plan takes its time
		return e.refuse(err)
	}
	plan, dir, err := e.planned(ctx, c)
	if dir != "" {
		defer os.RemoveAll(dir) //nolint:errcheck // It is below the temporary directory, and its name is never used again.
	}
	if err != nil {
		return err
	}
	var raw bytes.Buffer
	if err := e.run(ctx, &raw, c.with("show", "-json", "-no-color", plan)...); err != nil {
		return e.refuse(fmt.Errorf("cannot show the plan: %w", err))
	}
	of, err := inEnvironment(e.Getenv, time.Now())
	if err != nil {
		return e.refuse(err)
	}
	if err := (Options{Output: OutputText}).judge(raw.Bytes(), of, e.Err); err != nil {
		return e.refuse(err)
	}
	return e.run(ctx, e.Out, c.with("apply", append(c.forApply(), plan)...)...)
}

// refuse returns the error for a plan that is not applied. It is printed as the program would print it: a provider has that line in the
// condition of its Workspace.
func (e Exec) refuse(err error) error {
	refused := &RefusedError{err}
	fmt.Fprintf(e.Err, "\nError: %v\n", refused)
	return refused
}

// planned returns the file of the plan to apply: the one that the command names, or a new one in a directory of its own. The directory is to be
// removed, also after an error.
func (e Exec) planned(ctx context.Context, c command) (plan, dir string, err error) {
	if c.plan != "" {
		return c.plan, "", nil
	}
	if dir, err = os.MkdirTemp("", "kausality-plan-"); err != nil { // a plan has secrets: it is for this user alone
		return "", "", err
	}
	plan = filepath.Join(dir, "tfplan")
	return plan, dir, e.run(ctx, e.Out, c.with("plan", append(c.forPlan(), "-out="+plan)...)...)
}

// run runs the program until it ends. When the context ends, it is interrupted, as from a terminal.
func (e Exec) run(ctx context.Context, out io.Writer, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // The command line names the program.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.In, out, e.Err
	runtime.LockOSThread() // whose end is that of the parent
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = endsWithParent()
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGINT) }, stopWithin
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &UsageError{fmt.Sprintf("cannot run %s: %v", command[0], err)}
	}
	return err
}

// command of Terraform.
type command struct {
	// before are the program and the options before the subcommand.
	before     []string
	subcommand string
	// args of the subcommand; of one that applies without the file of a plan, which is plan; "" for none.
	args []string
	plan string
}

// parse parses a command line.
func parse(line []string) (c command, err error) {
	if len(line) == 0 {
		return c, &UsageError{"name the program and its arguments after --, as in -- tofu apply -auto-approve"}
	}
	i := 1
	for i < len(line) && strings.HasPrefix(line[i], "-") {
		i++
	}
	c.before = line[:i]
	if i == len(line) {
		return c, nil
	}
	c.subcommand = line[i]
	if !c.applies() {
		c.args = line[i+1:]
		return c, nil
	}
	if err := c.read(line[i+1:]); err != nil {
		return c, err
	}
	switch {
	case c.plan != "" && c.subcommand == "destroy":
		return c, &UsageError{"destroy has no file of a plan; plan -destroy makes one for apply"}
	case c.plan == "" && !slices.ContainsFunc(c.args, approves):
		return c, &UsageError{"give -auto-approve, or the file of a plan: the plan that was checked is applied without a question"}
	}
	return c, nil
}

// read reads the arguments of the subcommand.
func (c *command) read(args []string) error {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case !strings.HasPrefix(a, "-"):
			if c.plan != "" {
				return &UsageError{fmt.Sprintf("there are two files of plans: %s and %s", c.plan, a)}
			}
			c.plan = a
			continue
		case slices.Contains(valued, name(a)) && !strings.Contains(a, "="):
			if i++; i == len(args) {
				return &UsageError{a + " has no value"}
			}
			a += "=" + args[i]
		}
		c.args = append(c.args, a)
	}
	return nil
}

// approves reports whether an option answers the question of apply.
func approves(option string) bool {
	if _, value, has := strings.Cut(option, "="); has {
		yes, err := strconv.ParseBool(value)
		return name(option) == "auto-approve" && err == nil && yes
	}
	return name(option) == "auto-approve"
}

// name returns the name of an option, without dashes and value.
func name(option string) string {
	out, _, _ := strings.Cut(strings.TrimLeft(option, "-"), "=")
	return out
}

var (
	// valued are the options whose value may be the next argument.
	valued = []string{"var", "var-file", "target", "target-file", "exclude", "exclude-file", "replace", "state", "state-out", "backup", "lock-timeout",
		"parallelism"}
	// applied are the options of apply for the plan that was made; planned those that plan has, too.
	applied = []string{"auto-approve", "backup", "compact-warnings", "concise", "input", "json", "lock", "lock-timeout", "no-color", "parallelism",
		"show-sensitive",
		"state", "state-out"}
	planned = []string{"compact-warnings", "concise", "input", "lock", "lock-timeout", "no-color", "parallelism", "show-sensitive", "state"}
)

// applies reports whether the subcommand changes what is outside.
func (c command) applies() bool { return c.subcommand == "apply" || c.subcommand == "destroy" }

// with returns the command line of another subcommand.
func (c command) with(subcommand string, args ...string) []string {
	return append(append(slices.Clone(c.before), subcommand), args...)
}

// forPlan returns the arguments of plan: those about what is planned, and those that both have.
func (c command) forPlan() (out []string) {
	for _, a := range c.args {
		if n := name(a); slices.Contains(planned, n) || !slices.Contains(applied, n) {
			out = append(out, a)
		}
	}
	if c.subcommand == "destroy" {
		out = append(out, "-destroy")
	}
	return out
}

// forApply returns the arguments of apply for a plan that was made.
func (c command) forApply() (out []string) {
	for _, a := range c.args {
		if n := name(a); slices.Contains(applied, n) && n != "auto-approve" {
			out = append(out, a)
		}
	}
	return out
}
