package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/suggest"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/choice"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// NewCommand returns kubectl kausality with all its commands. version is printed
// by the version command and is part of the user agent.
func NewCommand(streams genericiooptions.IOStreams, version string) (*cobra.Command, error) {
	s := &session{IOStreams: streams, kube: genericclioptions.NewConfigFlags(true), version: version}
	s.view.now = clock.Now
	cmd := &cobra.Command{
		Use:   "kubectl-kausality",
		Short: "Show who caused a change, list pending changes, and approve them.",
		Long: "Shows who caused a resource to be as it is, what would happen if its controller changed it now, and which changes are " +
			"pending; and approves, rejects, freezes and snoozes.",
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kausality"},
		Args:              cobra.ArbitraryArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { s.view.paint = painted(s.Out); return nil },
		RunE:              helpOrUnknown,
	}
	s.kube.AddFlags(cmd.PersistentFlags())
	mode := choice.One(&s.defaultMode, "", v1alpha1.ModeLog, v1alpha1.ModeEnforce)
	cmd.PersistentFlags().Var(mode, "default-mode",
		"Mode where neither the object nor its Namespace sets one: "+mode.List()+". By default it is derived from the webhook configuration.")
	cmd.AddCommand(
		newTraceCommand(s), newExplainCommand(s), newPendingCommand(s), newHistoryCommand(s),
		newApproveCommand(s), newWithdrawCommand(s), newRejectCommand(s), newFreezeCommand(s), newUnfreezeCommand(s),
		newSnoozeCommand(s), newRolloutCommand(s), newUngateCommand(s),
		newCoverageCommand(s), newApproversCommand(s), newApprovalsCommand(s), newEmergencyCommand(s),
		newPreviewCommand(s), newPolicyCommand(s), newUICommand(s), newTUICommand(s), newVersionCommand(s),
	)
	for _, sub := range withCommands(cmd) {
		if err := completeFlags(sub); err != nil {
			return nil, fmt.Errorf("cannot offer completions of %s: %w", sub.Name(), err)
		}
		sub.SilenceErrors, sub.SilenceUsage = true, true
		sub.SetFlagErrorFunc(func(sub *cobra.Command, err error) error {
			return usageError{fmt.Errorf("%w; see %s --help", choice.Explain(err), sub.CommandPath())}
		})
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	return cmd, nil
}

// withCommands returns a command and all commands below it.
func withCommands(cmd *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		out = append(out, withCommands(sub)...)
	}
	return out
}

// helpOrUnknown runs where no command matched: it prints the help, or refuses
// the unknown command.
func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	names := lists.Map(cmd.Commands(), (*cobra.Command).Name)
	if near := suggest.Nearest(args[0], names); near != "" {
		return usageError{fmt.Errorf("unknown command %q; did you mean %q?", args[0], near)}
	}
	return usageError{fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
}

// noArgs refuses arguments with a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())}
}
