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

// approvalsCommand lists approvals that are not used up.
type approvalsCommand struct {
	*session
	arguments
	format   format
	all      bool
	outdated bool
}

// newApprovalsCommand returns `kubectl kausality approvals`. It reads and writes nothing.
func newApprovalsCommand(s *session) *cobra.Command {
	c := &approvalsCommand{session: s}
	cmd := &cobra.Command{
		Use: "approvals", Short: "Show approvals and votes that are not used up.", Args: noArgs,
		Long: "Reads all claims, composite and managed resources and shows the approvals on them, with who gave them. An approval of an earlier release for " +
			"the deletion of a composite or claim is ignored, because its id does not cover the managed resources below. The command that approves it again is shown.",
		Example: `  kubectl kausality approvals
  kubectl kausality approvals -A --outdated`,
		RunE: runs(c),
	}
	c.format.add(cmd, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "Include all namespaces and cluster-scoped objects.")
	cmd.Flags().BoolVar(&c.outdated, "outdated", false, "Show only approvals that are ignored, because their id is of an earlier release.")
	return cmd
}

func (c *approvalsCommand) run(ctx context.Context) error {
	conn, err := c.connection()
	if err != nil {
		return err
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	found, unread, err := approvals.List(ctx, i.Direct, conn.in(c.all))
	if err != nil {
		return err
	}
	for _, u := range unread {
		fmt.Fprintf(c.ErrOut, "Not read: %v. Approvals on these objects are missing here.\n", u)
	}
	if c.outdated {
		found = slices.DeleteFunc(found, func(g approvals.Given) bool { return g.Now == "" })
	}
	if err := c.print(found); err != nil {
		return err
	}
	if len(unread) > 0 {
		return errUnread
	}
	return nil
}

// print prints approvals as a table.
func (c *approvalsCommand) print(found []approvals.Given) error {
	if done, err := c.format.structured(c.Out, found); done {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintln(c.Out, "No unused approvals found.")
		return nil
	}
	w := printers.GetNewTabWriter(c.Out)
	fmt.Fprintln(w, "NAMESPACE\tOBJECT\tAPPROVES\tMODE\tBY\tSTATE")
	for _, g := range found {
		what, state := cmp.Or(g.ID, g.Kind), "counts"
		if g.Now != "" {
			state = c.view.yellow("ignored; to approve it again: " + g.Command)
		}
		fmt.Fprintf(w, "%s\t%s/%s\t%s\t%s\t%s\t%s\n", g.Namespace, g.Resource, g.Name, what, g.Mode, strings.Join(g.By, ", "), state)
	}
	return w.Flush()
}
