package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/choice"
)

// writeOptions are common to the commands that write annotations.
type writeOptions struct {
	format format
	dryRun annotate.DryRun
	yes    bool
}

// add adds the flags to a command.
func (o *writeOptions) add(cmd *cobra.Command) {
	o.format.add(cmd, formatName, formatJSON, formatYAML)
	addDryRun(cmd, &o.dryRun, annotate.DryRunClient+" (only print what would be written)", annotate.DryRunServer+" (send it, store nothing)")
	addYes(cmd, &o.yes)
}

// addYes adds --yes.
func addYes(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVarP(to, "yes", "y", false, "Do not ask for confirmation.")
}

// dryNone is the value of --dry-run for annotate.DryRunNone.
const dryNone annotate.DryRun = "none"

// addDryRun adds --dry-run with the forms that a command has. Without a value it is client.
func addDryRun(cmd *cobra.Command, to *annotate.DryRun, forms ...annotate.DryRun) {
	dry := choice.One(to, dryNone, append([]annotate.DryRun{dryNone}, forms...)...)
	cmd.Flags().Var(dry, "dry-run", dry.List()+".")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = string(annotate.DryRunClient)
}

// dry run as the writer of annotations takes it.
func (o *writeOptions) dry() annotate.DryRun {
	if o.dryRun == dryNone {
		return annotate.DryRunNone
	}
	return o.dryRun
}

// waitOptions of a command that can wait.
type waitOptions struct {
	wait    bool
	timeout time.Duration
}

// add adds the flags; what is the help text of --wait.
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
