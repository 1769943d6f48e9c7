package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// options of a command: what its flags and arguments select. A command is made of them by runs.
type options interface {
	// complete the options by the arguments, and by what the flags leave to the environment.
	complete(cmd *cobra.Command, args []string) error
	// validate the options. No cluster is read before.
	validate() error
	// run the command.
	run(ctx context.Context) error
}

// runs returns the function of a command, which has the three stages of kubectl's own commands.
func runs(o options) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := o.complete(cmd, args); err != nil {
			return err
		}
		if err := o.validate(); err != nil {
			return err
		}
		return o.run(cmd.Context())
	}
}

// arguments of a command, which options embed that have nothing else to complete or to validate.
type arguments struct {
	cmd  *cobra.Command
	args []string
}

func (a *arguments) complete(cmd *cobra.Command, args []string) error {
	a.cmd, a.args = cmd, args
	return nil
}

func (a *arguments) validate() error { return nil }
