package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/gate/release"
)

// ungateCommand restores management policies, as the Helm chart does before it
// removes Kausality. kubectl kausality ungate does the same with confirmation.
func ungateCommand() *cobra.Command {
	p, u := processFlags{}, release.Options{}
	var all, removal bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "ungate [--all | RESOURCE.GROUP/[NAMESPACE/]NAME ...]",
		Short: "Restore the managementPolicies that the authors of managed resources wrote.",
		Long: "Restores what the authors of managed resources wrote into spec.managementPolicies, and removes the gate's\n" +
			"annotations. Before that it lists the external drift that the providers will revert then. Run it before\n" +
			"Kausality is removed, with webhook and gate stopped or in mode log. It may be run again.\n\n" +
			"With --for-removal they may run, in any mode: the webhook configuration is marked with kausality.io/removal,\n" +
			"which makes them stop masking and refusing, and the command ends when nothing is masked.",
		Example: "  kausality ungate --all --dry-run\n  kausality ungate --all --for-removal\n  kausality ungate databases.cloud.example.org/default/orders",
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if all == (len(names) > 0) {
				return usageError{fmt.Errorf("name managed resources, or give --all; see %s --help", cmd.CommandPath())}
			}
			if removal && !all {
				return usageError{errors.New("--for-removal is about all managed resources: give --all with it")}
			}
			p.logger()
			if u.Config, err = p.connect(cmd.Context()); err != nil {
				return err
			}
			u.Names, u.Out = names, cmd.OutOrStdout()
			ungate := release.Ungate
			if removal && !u.DryRun {
				ungate = release.Remove
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			done, err := ungate(ctx, u)
			if err != nil && done.Masked == 0 {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&p.kubeconfig, "kubeconfig", "", "Kubeconfig of the API server; where empty $KUBECONFIG, or the Pod's ServiceAccount.")
	fl.BoolVar(&p.debug, "debug", false, "Emit debug logs in addition to info logs.")
	fl.BoolVar(&all, "all", false, "Every managed resource of the cluster.")
	fl.BoolVar(&removal, "for-removal", false, "Kausality is to be removed: webhook and gate stop masking, and nothing is masked when the command ends.")
	fl.DurationVar(&timeout, "timeout", 5*time.Minute, "Give up after this time.")
	fl.BoolVar(&u.DryRun, "dry-run", false, "List what would be restored, and restore nothing.")
	return cmd
}
