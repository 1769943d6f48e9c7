package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

type approveOptions struct {
	decisionOptions
	waitOptions
	whichOptions
	mode, digest string
	any          bool
	external     []string
}

func (c *cli) approveCommand() *cobra.Command {
	o := &approveOptions{}
	cmd := &cobra.Command{
		Use: "approve ID... | TYPE/NAME... | TYPE -l LABELS | --all", Short: "Approve what waits.",
		Long: "Approves differences that were reported: one by its id, or all that stand about an object. What was shown is what " +
			"happens: an approval is for exactly that difference. With --any, whatever its controller changes of an object is " +
			"approved in advance.",
		Example: `  # What kubectl kausality pending lists, and wait until it went through
  kubectl kausality approve 7642947475a29290 --wait

  # All that waits below one object; you are asked
  kubectl kausality approve xdatabase/orders

  # All that waits below the objects of one team; you are asked
  kubectl kausality approve xdatabases -l team=shop

  # Let the controller do with this database what it likes, until somebody changes the spec of its parent
  kubectl kausality approve database/orders-da6cb79af0ff --any --mode generation

  # Let the external resource be deleted
  kubectl kausality approve database/orders-da6cb79af0ff --any --external Delete`,
		ValidArgsFunction: c.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.approve(cmd, args, o) },
	}
	o.decisionOptions.add(cmd)
	o.whichOptions.add(cmd, "Approve all that waits in the namespace.")
	o.waitOptions.add(cmd, "Wait until what is approved went through.")
	fl := cmd.Flags()
	fl.StringVar(&o.mode, "mode", string(v1alpha1.ApprovalOnce), "once, generation (until the next intent on the parent) or always.")
	fl.StringVar(&o.digest, "digest", "", "Approve the difference with this id of the object named, whether it is reported or not.")
	fl.BoolVar(&o.any, "any", false, "Approve whatever its controller changes of the objects named.")
	fl.StringSliceVar(&o.external, "external", nil, "With --any: approve these verbs of the external resource instead: Create, Update, Delete or *.")
	offer(fl.Lookup("mode"), string(v1alpha1.ApprovalOnce), string(v1alpha1.ApprovalGeneration), string(v1alpha1.ApprovalAlways))
	offer(fl.Lookup("external"), "Create", "Update", "Delete", "*")
	return cmd
}

func (o *approveOptions) check() error {
	if err := o.decisionOptions.check(); err != nil {
		return err
	}
	switch v1alpha1.ApprovalMode(o.mode) {
	case v1alpha1.ApprovalOnce, v1alpha1.ApprovalGeneration, v1alpha1.ApprovalAlways:
	default:
		return usageError{fmt.Errorf("--mode must be once, generation or always, not %q", o.mode)}
	}
	switch {
	case o.digest != "" && !isID(o.digest):
		return usageError{fmt.Errorf("--digest must be the id of a difference, 16 hexadecimal digits, not %q", o.digest)}
	case o.digest != "" && o.any:
		return usageError{errors.New("--digest and --any say different things; give one")}
	case len(o.external) > 0 && !o.any && o.digest == "":
		return usageError{errors.New("--external needs --any or --digest")}
	case o.wait && (o.any || o.digest != ""):
		return usageError{errors.New("--wait needs differences that are reported; it does not go with --any or --digest")}
	}
	for _, v := range o.external {
		if !slices.Contains([]string{"Create", "Update", "Delete", "*"}, v) {
			return usageError{fmt.Errorf("--external must be Create, Update, Delete or *, not %q", v)}
		}
	}
	return nil
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{16}$`)

// isID reports whether an argument is the id of a difference.
func isID(s string) bool { return idPattern.MatchString(s) }

func (c *cli) approve(cmd *cobra.Command, args []string, o *approveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.any || o.digest != "" {
		return c.approveInAdvance(cmd, args, o)
	}
	list, group, err := c.meant(cmd, args, &o.whichOptions)
	if err != nil {
		return err
	}
	d := decision{question: "Approve %s (" + o.mode + ")?", what: "change", differences: true}
	if group {
		d.named = asGroup
	}
	for i := range list {
		d.list = append(d.list, c.approveDrift(&list[i], o))
	}
	if err := c.decide(cmd.Context(), &o.decisionOptions, d); err != nil || !o.wait || o.dryRun != "none" {
		return err
	}
	return c.awaitAll(cmd, list, o)
}
