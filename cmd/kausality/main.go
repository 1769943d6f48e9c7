// Command kausality is every process of Kausality for Crossplane: with no
// arguments the composition function, as a function's image must start it; with
// a subcommand the webhook, the gate, and the tools around them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // the zones of windows, also where the image has none

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/cli/choice"
)

// exitUsage is the exit code of a wrong command line, exitFailure of anything
// else that went wrong.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake in the command line.
type usageError struct{ error }

// main runs the command until it ends or the process gets SIGINT or SIGTERM. An
// error is one line, with exit code 2 for a wrong command line and 1 for the rest.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	if text := strings.Join(strings.Fields(err.Error()), " "); text != "" { // one line, whatever it was
		fmt.Fprintln(os.Stderr, "kausality: "+text)
	}
	os.Exit(exitCode(err))
}

// exitCode returns 2 for a usage error, 1 for any other.
func exitCode(err error) int {
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	if own := (codeError{}); errors.As(err, &own) {
		return own.code
	}
	return exitFailure
}

// root is the composition function: function-sdk-go and Crossplane start the image
// without arguments. All other processes are commands below it.
func root() *cobra.Command {
	cmd := functionCommand()
	cmd.AddCommand(webhookCommand(), gateCommand(), controllerCommand(), ungateCommand(), manifestsCommand(), notifyCommand(),
		policyCommand(), kroCommand(), terraformCommand(), historyCommand(), pageCommand(), versionCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
			return usageError{fmt.Errorf("%w; see %s --help", choice.Explain(err), c.CommandPath())}
		})
	}
	return cmd
}

// group returns a command with subcommands, which does nothing by itself.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return usageError{fmt.Errorf("name a command; see %s --help", cmd.CommandPath())}
	}}
	return addSilent(cmd, commands...)
}

// addSilent adds commands that print neither errors nor their usage: main prints an error, once.
func addSilent(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	for _, c := range commands {
		c.SilenceErrors, c.SilenceUsage = true, true
		cmd.AddCommand(c)
	}
	return cmd
}

// noArgs refuses arguments with a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unknown command or argument %q; see %s --help", args[0], cmd.CommandPath())}
}
