package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/internal/replay"
)

// newPolicyCommand groups what is about policies. It needs no cluster.
func newPolicyCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy COMMAND", Short: "Test policies and ApprovalRules against recorded changes.",
		Args: cobra.ArbitraryArgs, RunE: helpOrUnknown,
	}
	cmd.AddCommand(newPolicyTestCommand(s))
	return cmd
}

// newPolicyTestCommand returns `kubectl kausality policy test`, which is the same as `kausality policy test` (KR-14-18).
func newPolicyTestCommand(s *session) *cobra.Command {
	var files replay.Files
	var at string
	cmd := &cobra.Command{
		Use: "test FILE... --events=AUDITLOG", Short: "Print which recorded changes would be refused, and who could approve them.",
		Long: "Replays the changes of an API server's audit log (JSON lines, level RequestResponse) against the policies in FILE..., in mode " +
			"enforce, and prints each change that would have been refused, and why. With ApprovalRules among the policies it prints who may " +
			"approve each of these changes, and when. No cluster is read. Exits with 1 if any change would be refused, or if a policy does " +
			"not compile.",
		Example: `  # Who could have approved what was changed, and when?
  kubectl kausality policy test rules.yaml --events=audit.log
  # And next Saturday?
  kubectl kausality policy test rules.yaml --events=audit.log --at=2026-11-28T12:00:00Z`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || files.Events == "" {
				return usageError{errors.New("name the files with policies, and the audit log with --events")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if files.At, err = replay.ParseAt(at); err != nil {
				return usageError{err}
			}
			files.Policies = args
			return files.Test(cmd.Context(), s.Out)
		},
	}
	cmd.Flags().StringVar(&files.Events, "events", "", "File with the audit log.")
	cmd.Flags().StringVar(&at, "at", "", "Time for which the windows of ApprovalRules are printed, in RFC 3339; by default that of each change.")
	return cmd
}
