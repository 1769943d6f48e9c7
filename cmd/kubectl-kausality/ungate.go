package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/gate"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

type ungateOptions struct {
	format       format
	all, removal bool
	dryRun       string
	yes          bool
	timeout      time.Duration
}

func (c *cli) ungateCommand() *cobra.Command {
	o := &ungateOptions{}
	cmd := &cobra.Command{
		Use: "ungate TYPE/NAME... | --all", Short: "Restore the managementPolicies that the authors of managed resources wrote.",
		Long: "Takes managed resources out of the gate's hands: what their authors wrote into spec.managementPolicies comes back, and the gate's " +
			"annotations go. The external drift that their providers will revert then is shown before you are asked. For good it is only with " +
			"webhook and gate stopped, or in mode log, or with --for-removal, which tells them to mask nothing any more; else, run as somebody " +
			"else than the gate, the webhook puts the mask back, and that is an error. " +
			"For one managed resource alone, set kausality.io/mode=log on it instead.",
		Example: `  kubectl kausality ungate --all --dry-run

  # Before Kausality is removed, as the Helm chart does by itself
  kubectl kausality ungate --all --for-removal`,
		ValidArgsFunction: c.completeSeveral,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.ungate(cmd, args, o) },
	}
	o.format.add(cmd, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&o.all, "all", false, "Every managed resource of the cluster.")
	cmd.Flags().StringVar(&o.dryRun, "dry-run", "none", "none or client (list what would be restored, and restore nothing).")
	f := cmd.Flags().Lookup("dry-run")
	f.NoOptDefVal = string(annotate.DryRunClient)
	offer(f, "none", string(annotate.DryRunClient))
	cmd.Flags().BoolVar(&o.removal, "for-removal", false, "With --all: Kausality is to be removed; webhook and gate are told to mask nothing any more.")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long --for-removal may take.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask.")
	return cmd
}

func (c *cli) ungate(cmd *cobra.Command, args []string, o *ungateOptions) error {
	if err := o.format.check(); err != nil {
		return err
	}
	if o.dryRun != "none" && o.dryRun != string(annotate.DryRunClient) {
		return usageError{fmt.Errorf("--dry-run must be none or client, not %q", o.dryRun)}
	}
	if o.all == (len(args) > 0) {
		return usageError{fmt.Errorf("name managed resources as TYPE/NAME, or give --all; see %s --help", cmd.CommandPath())}
	}
	if o.removal && !o.all {
		return usageError{errors.New("--for-removal is about everything: give --all with it")}
	}
	u := gate.Ungating{DryRun: true, Out: c.Out}
	if o.format.value != formatTable {
		u.Out = io.Discard
	}
	var err error
	if u.Config, err = c.config(); err != nil {
		return err
	}
	if !o.all {
		targets, err := c.objects(cmd, args)
		if err != nil {
			return err
		}
		for _, t := range targets {
			u.Names = append(u.Names, named(t))
		}
	}
	found, err := gate.Ungate(cmd.Context(), u)
	if err != nil || o.dryRun != "none" || found.Masked == 0 && !o.removal {
		return errors.Join(c.ungated(o, found, err != nil), err)
	}
	question := fmt.Sprintf("Restore %s? Their providers will do again what their authors wrote.", plural(found.Masked, "managed resource"))
	if o.removal {
		question = "Kausality will enforce and mask nothing any more. " + question
	}
	if err := c.confirm(question, o.yes, "; --dry-run shows what would be restored"); err != nil {
		return err
	}
	u.DryRun = false
	done, err := o.restore(cmd.Context(), u)
	return errors.Join(c.ungated(o, done, err != nil), err)
}

// restore once, or for good.
func (o *ungateOptions) restore(ctx context.Context, u gate.Ungating) (gate.Ungated, error) {
	if !o.removal {
		return gate.Ungate(ctx, u)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return gate.Remove(ctx, u)
}

// named as gate.Ungate names managed resources.
func named(t target) string {
	name := t.GetName()
	if ns := t.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return t.resource + "/" + name
}

func (c *cli) ungated(o *ungateOptions, done gate.Ungated, failed bool) error {
	if structured, err := o.format.structured(c.Out, map[string]int{"masked": done.Masked, "pending": done.Pending, "restored": done.Restored, "unread": done.Unread}); structured {
		return err
	}
	if failed && done.Masked == 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, done)
	return err
}
