package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/internal/replay"
)

// policyCommand groups what works on recorded changes instead of a cluster.
func policyCommand() *cobra.Command {
	return group("policy", "Derive policies from recorded changes, and test them against recorded changes.", policyTestCommand(), policyDeriveCommand())
}

// policyTestCommand exits with 1 if a recorded change would have been refused.
func policyTestCommand() *cobra.Command {
	var files replay.Files
	var at string
	cmd := &cobra.Command{
		Use:   "test FILE... --events=AUDITLOG",
		Short: "Replay recorded changes against policies and print what would have been refused.",
		Long: `Replays the changes of an API server's audit log (JSON lines, level RequestResponse)
against the policies in FILE..., in mode enforce, and prints each change that would have
been refused, and why. With ApprovalRules among the policies it prints who may approve
each of these changes, and when: how many users of which groups, who does not count, and
when a window opens. Exits with 1 if any change would be refused, or if a policy does not
compile.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || files.Events == "" {
				return usageError{fmt.Errorf("name the files with policies, and the audit log with --events; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if files.At, err = replay.ParseAt(at); err != nil {
				return usageError{err}
			}
			files.Policies = args
			return files.Test(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&files.Events, "events", "", "File with the audit log.")
	cmd.Flags().StringVar(&at, "at", "", "Time for which the windows of ApprovalRules are printed, in RFC 3339; by default that of each change.")
	return cmd
}

// policyDeriveCommand prints policies as a starting point for review.
func policyDeriveCommand() *cobra.Command {
	var events, drifts string
	cmd := &cobra.Command{
		Use:   "derive --events=AUDITLOG | --drifts=FILE",
		Short: "Print AllowancePolicies that allow what was recorded in log mode.",
		Long: `Prints AllowancePolicies that allow what was recorded in log mode: from an API server's
audit log (JSON lines, level RequestResponse), by the traces in its objects, or from
Drifts ("kubectl get drifts -A -o json") and DriftReports (as "kausality notify log" prints
them), which do not contain the field that caused a change: narrow their rules by hand.
Review the output before you apply it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			if events == "" && drifts == "" {
				return usageError{fmt.Errorf("name the recorded changes with --events or --drifts; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return derivePolicies(cmd.OutOrStdout(), events, drifts) },
	}
	cmd.Flags().StringVar(&events, "events", "", "File with the audit log.")
	cmd.Flags().StringVar(&drifts, "drifts", "", "File with Drifts or DriftReports, as YAML or JSON.")
	return cmd
}

// derivePolicies from an audit log, from Drifts, or from both.
func derivePolicies(out io.Writer, events, drifts string) error {
	l := replay.NewLearner()
	if events != "" {
		changes, _, err := replay.ReadFile(events)
		if err != nil {
			return err
		}
		l.Changes(changes)
	}
	if drifts != "" {
		list, err := replay.ReadDrifts(drifts)
		if err != nil {
			return err
		}
		for _, d := range list {
			l.Drift(d)
		}
	}
	policies := l.Policies()
	if len(policies) == 0 {
		return errors.New("no policy can be derived: there is no change of a child whose cause is recorded as well")
	}
	return replay.WritePolicies(out, policies)
}
