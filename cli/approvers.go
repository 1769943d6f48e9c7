package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/cli/approvals"
)

// approversCommand lists who may approve.
type approversCommand struct {
	*session
	arguments
	format   format
	lost     bool
	exitCode bool
}

// newApproversCommand returns `kubectl kausality approvers`. It reads and writes nothing.
func newApproversCommand(s *session) *cobra.Command {
	c := &approversCommand{session: s}
	cmd := &cobra.Command{
		Use: "approvers", Short: "Show who may approve by RBAC, and who loses the right.", Args: noArgs,
		Long: "Reads roles and bindings, and shows which subjects have the verb approve on claims, composite and managed resources: on the subresource " +
			"approval, or on the resource itself, which does not count with --approver-rbac=true. Crossplane's RBAC manager grants the latter to all editors. " +
			"Run it before you change --approver-rbac.",
		Example: `  kubectl kausality approvers --lost
  kubectl kausality approvers -o wide`,
		RunE: runs(c),
	}
	c.format.add(cmd, formatWide, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&c.lost, "lost", false, "Show only subjects that lose the right with --approver-rbac=true.")
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false, "Exit with 4 if any subject loses the right.")
	return cmd
}

func (c *approversCommand) run(ctx context.Context) error {
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	found, err := approvals.Approvers(ctx, i.Direct)
	if err != nil {
		return err
	}
	loses := slices.ContainsFunc(found, func(a approvals.Approver) bool { return a.Loses })
	if c.lost {
		found = slices.DeleteFunc(found, func(a approvals.Approver) bool { return !a.Loses })
	}
	if err := c.print(found); err != nil {
		return err
	}
	return foundIf(c.exitCode && loses)
}

// print prints approvers as a table.
func (c *approversCommand) print(found []approvals.Approver) error {
	if done, err := c.format.structured(c.Out, found); done {
		return err
	}
	if len(found) == 0 {
		what := "has the verb approve on claims, composite or managed resources"
		if c.lost {
			what = "loses the right to approve with --approver-rbac=true"
		}
		fmt.Fprintln(c.Out, "No subject "+what+".")
		return nil
	}
	w := printers.GetNewTabWriter(c.Out)
	fmt.Fprintln(w, "SUBJECT\tNAMESPACE\tVERB ON\tRESOURCES\tBY")
	for _, a := range found {
		right := string(a.Right)
		if a.Loses {
			right = c.view.yellow(right + ", lost with --approver-rbac=true")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", a.Subject, cmp.Or(a.Namespace, "*"), right, someOf(a.Resources, c.format.value == formatWide), a.Role)
	}
	return w.Flush()
}

// maxResources is how many resources a row names; all in wide output.
const maxResources = 3

// someOf returns the first of a list, and how many more there are.
func someOf(list []string, all bool) string {
	if all || len(list) <= maxResources {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:maxResources], ", "), len(list)-maxResources)
}
