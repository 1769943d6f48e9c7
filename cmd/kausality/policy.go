package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/replay"
)

// policyCommand groups what works on recorded changes instead of a cluster.
func policyCommand() *cobra.Command {
	return group("policy", "Derive policies from recorded changes, and test them against recorded changes.", policyTestCommand(), policyDeriveCommand())
}

// policyTestCommand exits with 1 if a recorded change would have been refused.
func policyTestCommand() *cobra.Command {
	var events string
	cmd := &cobra.Command{
		Use:   "test FILE... --events=AUDITLOG",
		Short: "Replay recorded changes against policies and print what would have been refused.",
		Long: `Replays the changes of an API server's audit log (JSON lines, level RequestResponse)
against the policies in FILE..., in mode enforce, and prints each change that would have
been refused, and why. Exits with 1 if any would, or if a policy does not compile.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || events == "" {
				return usageError{fmt.Errorf("name the files with policies, and the audit log with --events; see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return testPolicies(cmd, args, events) },
	}
	cmd.Flags().StringVar(&events, "events", "", "File with the audit log.")
	return cmd
}

// testPolicies compiles the policies before it reads the log, which may be large.
func testPolicies(cmd *cobra.Command, files []string, events string) error {
	set, err := replay.ReadPolicies(files...)
	if err != nil {
		return err
	}
	changes, skipped, err := replay.ReadFile(events)
	if err != nil {
		return err
	}
	r, err := replay.Test(cmd.Context(), changes, set)
	if err != nil {
		return err
	}
	r.Print(cmd.OutOrStdout(), events, skipped)
	if len(r.Refusals) > 0 {
		return fmt.Errorf("%d recorded changes would have been refused", len(r.Refusals))
	}
	return nil
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
