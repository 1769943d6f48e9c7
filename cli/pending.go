package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// pendingCommand lists pending changes by their causes.
type pendingCommand struct {
	*session
	format   format
	all      bool
	exitCode bool
}

// newPendingCommand is `kubectl kausality pending`. It reads Drifts, and what the
// composition function holds back.
func newPendingCommand(s *session) *cobra.Command {
	c := &pendingCommand{session: s}
	cmd := &cobra.Command{
		Use: "pending [TYPE/NAME]", Short: "List pending changes, by their cause.",
		Example: `  # Pending changes of this namespace, and of all of them
  kubectl kausality pending
  kubectl kausality pending -A

  # Pending changes below one object, in full
  kubectl kausality pending xdatabase/orders -o wide`,
		ValidArgsFunction: completer{s}.object,
		RunE:              c.run,
	}
	c.format.add(cmd, formatWide, formatName, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "List those of all namespaces.")
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false, "Exit with 4 if any change is pending.")
	return cmd
}

// run lists the pending changes; errFound with --exit-code where there are any.
func (c *pendingCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.format.check(); err != nil {
		return err
	}
	list, where, err := driftFinder{c.session}.open(cmd, args, c.all)
	if err != nil {
		return err
	}
	if err := c.print(list, where); err != nil {
		return err
	}
	if c.exitCode && len(list) > 0 {
		return errFound
	}
	return nil
}

// print Drifts; where completes the sentence for none.
func (c *pendingCommand) print(list []v1alpha1.Drift, where string) error {
	all := &v1alpha1.DriftList{
		Items:    append([]v1alpha1.Drift{}, list...), // an empty list where there is none, as kubectl get prints it
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DriftList"},
	}
	if done, err := c.format.structured(c.Out, all); done {
		return err
	}
	if c.format.value == formatName {
		return c.printNames(list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(c.ErrOut, "Nothing waits for approval %s.\n", where)
		return err
	}
	for n, g := range byCause(list) {
		if n > 0 {
			fmt.Fprintln(c.Out)
		}
		if err := g.print(c.Out, c.view, c.format.value == formatWide); err != nil {
			return err
		}
	}
	return nil
}

// printNames of the Drifts that exist, so that each of them can be given to
// kubectl get. What the composition function holds without a Drift is counted
// on standard error (KR-12-16).
func (c *pendingCommand) printNames(list []v1alpha1.Drift) error {
	held := 0
	for i := range list {
		if inspect.IsHeld(&list[i]) {
			held++
			continue
		}
		if _, err := fmt.Fprintln(c.Out, "drift."+v1alpha1.Group+"/"+list[i].Name); err != nil {
			return err
		}
	}
	if held == 0 {
		return nil
	}
	_, err := fmt.Fprintf(c.ErrOut, "Not listed: %s that the composition function holds without a Drift; -o json lists all.\n", plural(held, "change"))
	return err
}

// group of Drifts that have one cause, in one namespace; newest first.
type group struct {
	cause, namespace string
	drifts           []v1alpha1.Drift
}

// byCause groups Drifts, the groups in the order of their newest.
func byCause(list []v1alpha1.Drift) []*group {
	var out []*group
	at := map[[2]string]*group{}
	for _, d := range list {
		key := [2]string{d.Namespace, d.Spec.Cause}
		g := at[key]
		if g == nil {
			g = &group{cause: d.Spec.Cause, namespace: d.Namespace}
			at[key] = g
			out = append(out, g)
		}
		g.drifts = append(g.drifts, d)
	}
	return out
}

// print the group as a table below its cause, with the command that approves all
// of it.
func (g *group) print(out io.Writer, v view, wide bool) error {
	oldest := inspect.Since(&g.drifts[len(g.drifts)-1])
	fmt.Fprintf(out, "%s: %s, since %s\n", v.bold(capitalized(cmp.Or(g.cause, "unknown cause"))), plural(len(g.drifts), "change"), v.age(oldest))
	g.authors(out)
	w := printers.GetNewTabWriter(out)
	header := "  ID\tAGE\tPARENT\tCHANGE"
	if wide {
		header = "  ID\tAGE\tCOUNT\tUSER\tPARENT\tCHANGE"
	}
	fmt.Fprintln(w, header)
	ids := make([]string, 0, len(g.drifts))
	for i := range g.drifts {
		d := &g.drifts[i]
		ids = append(ids, d.Name)
		cells := []string{"  " + d.Name, v.age(inspect.Since(d))}
		if wide {
			cells = append(cells, fmt.Sprint(d.Status.Count), cmp.Or(d.Spec.User, "-"))
		}
		fmt.Fprintln(w, strings.Join(append(cells, describeRef(d.Spec.Parent), summary(d)), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "  To approve: %s\n", approveCommandLine(g.namespace, ids...))
	return err
}

// authors prints the causes whose authors are known, once each.
func (g *group) authors(out io.Writer) {
	var lines []string
	for _, d := range g.drifts {
		if slices.ContainsFunc(d.Spec.Causes, func(c v1alpha1.HopCause) bool { return authorOf(c) != "" }) {
			lines = append(lines, causeLines(d.Spec.Causes)...)
		}
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		fmt.Fprintln(out, "  "+line)
	}
}

// capitalized makes the first letter of a sentence a capital.
func capitalized(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
