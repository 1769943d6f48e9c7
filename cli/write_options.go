package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/cli/annotate"
)

// writeOptions are common to the commands that write annotations.
type writeOptions struct {
	format format
	dryRun string
	yes    bool
}

// add the flags to a command.
func (o *writeOptions) add(cmd *cobra.Command) {
	o.format.add(cmd, formatName, formatJSON, formatYAML)
	cmd.Flags().StringVar(&o.dryRun, "dry-run", "none", "none, client (only print what would be written) or server (send it, store nothing).")
	f := cmd.Flags().Lookup("dry-run")
	f.NoOptDefVal = "client"
	offer(f, "none", "client", "server")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation.")
}

// check the flags before the cluster is read.
func (o *writeOptions) check() error {
	if _, err := o.dry(); err != nil {
		return err
	}
	return o.format.check()
}

// dry run as given; an unknown one is a usage error.
func (o *writeOptions) dry() (annotate.DryRun, error) {
	switch o.dryRun {
	case "none":
		return annotate.DryRunNone, nil
	case string(annotate.DryRunClient), string(annotate.DryRunServer):
		return annotate.DryRun(o.dryRun), nil
	}
	return "", usageError{fmt.Errorf("--dry-run must be none, client or server, not %q", o.dryRun)}
}

// waitOptions of a command that can wait.
type waitOptions struct {
	wait    bool
	timeout time.Duration
}

// add the flags; what is the help text of --wait.
func (o *waitOptions) add(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, what)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long --wait waits; then the exit code is 3.")
}

// pollInterval of --wait.
const pollInterval = 500 * time.Millisecond

// until a condition holds. poll returns what it waits for, or "" once the
// condition holds. The error is a timeoutError after the timeout.
func (o *waitOptions) until(ctx context.Context, poll func(context.Context) (waiting string, err error)) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, pollInterval, o.timeout, true, func(ctx context.Context) (bool, error) {
		waiting, err := poll(ctx)
		if err == nil {
			last = waiting
		}
		return waiting == "", err
	})
	if err != nil && ctx.Err() == nil && wait.Interrupted(err) {
		return timeoutError{fmt.Errorf("timed out after %s: %s", o.timeout, last)}
	}
	return err
}
