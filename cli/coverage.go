package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// coverageCommand lists what is not protected.
type coverageCommand struct {
	*session
	arguments
	format   format
	all      bool
	exitCode bool
}

// newCoverageCommand returns `kubectl kausality coverage`. It reads and writes nothing.
func newCoverageCommand(s *session) *cobra.Command {
	c := &coverageCommand{session: s}
	cmd := &cobra.Command{
		Use: "coverage", Short: "Show what is not protected, and why.", Args: noArgs,
		Long: "Shows first what the installation does not protect: clients without a certificate, changes during an outage, approvals without a right. " +
			"Then reads all claims, composite and managed resources and shows which of them are not protected: not guarded by the webhook, in " +
			"mode log, unprotected while the webhook is down, still initializing, never settled, approved for ever, without a gate, or with nothing to compare. " +
			"Last, which of them are frozen or snoozed. " +
			"Exits with 5 where you may not read what protection depends on.",
		Example: `  kubectl kausality coverage
  kubectl kausality coverage -A -o wide`,
		RunE: runs(c),
	}
	c.format.add(cmd, formatWide, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "Include all namespaces and cluster-scoped objects.")
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false, "Exit with 4 if anything is not protected.")
	return cmd
}

// run lists the gaps of one namespace, or of all; errFound with --exit-code where
// there are any.
func (c *coverageCommand) run(ctx context.Context) error {
	conn, err := c.connection()
	if err != nil {
		return err
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	found, err := i.Coverage(ctx, conn.in(c.all))
	if err != nil {
		return err
	}
	if err := c.print(found); err != nil {
		return err
	}
	return c.verdict(found)
}

// verdict returns the error that determines the exit code.
func (c *coverageCommand) verdict(found *inspect.Coverage) error {
	if found.Undecided != "" || slices.ContainsFunc(found.Gaps, func(g inspect.KindGap) bool { return g.Gap == inspect.GapUnread }) {
		return errUnread
	}
	return foundIf(c.exitCode && (len(found.Gaps) > 0 || found.Unanswered != "" || slices.ContainsFunc(found.Installation, exits)))
}

// exits reports whether a weakness of the installation is a finding for --exit-code. For failing open, its objects are the findings.
func exits(f inspect.Finding) bool {
	return !f.Unknown && !f.Partly && f.Weakness != inspect.WeakOutage
}

// print prints the gaps as one table each, the worst first.
func (c *coverageCommand) print(found *inspect.Coverage) error {
	if done, err := c.format.structured(c.Out, found); done {
		return err
	}
	if !found.Installed {
		fmt.Fprintln(c.Out, c.view.red("The webhook is not installed: there is no webhook configuration kausality."))
	}
	if found.Unanswered != "" {
		fmt.Fprintln(c.Out, c.view.red("The webhook does not answer: "+found.Unanswered+"."))
	}
	c.printInstallation(found.Installation)
	for _, u := range found.Unread {
		fmt.Fprintln(c.Out, c.view.yellow("Not read: "+u))
	}
	if found.Undecided != "" {
		fmt.Fprintln(c.Out, c.view.yellow("Unknown what is protected: "+found.Undecided))
		fmt.Fprintf(c.Out, "%s of %s were read.\n", channel.Plural(found.Objects, "object"), channel.Plural(found.Kinds, "kind"))
	} else {
		unread := found.UnreadKinds()
		fmt.Fprintf(c.Out, "%d of %s of %s are protected%s.%s\n",
			found.Protected, channel.Plural(found.Objects, "object"), channel.Plural(found.Kinds-unread, "kind"), whileAnswering(found.Unanswered), unknownKinds(unread))
	}
	last := inspect.Gap("")
	w := printers.GetNewTabWriter(c.Out)
	for _, g := range found.Gaps {
		if g.Gap != last {
			last = g.Gap
			if err := w.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "\n%s  %s\n", c.view.yellow(string(g.Gap)), inspect.Explained[g.Gap])
		}
		if g.Count == 0 { // its objects could not be listed
			fmt.Fprintf(w, "  %s\n", g.Resource)
			continue
		}
		fmt.Fprintf(w, "  %s\t%d\t%s\n", g.Resource, g.Count, examples(g.Examples, g.Count, c.format.value == formatWide))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(found.InForce) > 0 {
		fmt.Fprintln(c.Out, "\nIn force")
	}
	for _, r := range found.InForce {
		fmt.Fprintf(w, "  %s\t%s\t%d\t%s\n", strings.ToLower(r.Ruling), r.Resource, r.Count, examples(r.Examples, r.Count, true))
	}
	return w.Flush()
}

// printInstallation before the objects: its weaknesses are about all of them.
func (c *coverageCommand) printInstallation(found []inspect.Finding) {
	for _, f := range found {
		what := c.view.red(string(f.Weakness))
		if f.Unknown {
			what = c.view.yellow(string(f.Weakness) + " (unknown)")
		}
		fmt.Fprintf(c.Out, "%s  %s\n", what, f.Message)
	}
	if len(found) > 0 {
		fmt.Fprintln(c.Out)
	}
}

// whileAnswering restricts the sentence about what is protected: nothing is while no webhook
// answers.
func whileAnswering(unanswered string) string {
	if unanswered == "" {
		return ""
	}
	return " once it answers again; until then, changes are refused or allowed unjudged"
}

// unknownKinds completes the sum with kinds whose objects could not be read; empty for none (KR-12-19).
func unknownKinds(n int) string {
	if n == 0 {
		return ""
	}
	return " The objects of " + channel.Plural(n, "further kind") + " could not be read: whether they are protected is unknown."
}

// examples returns the examples of so many objects; in wide output with the reason of each.
func examples(list []inspect.Example, count int, wide bool) string {
	parts := make([]string, 0, len(list)+1)
	for _, e := range list {
		s := channel.Part("", e.Namespace, "/") + e.Name
		if wide && e.Why != "" {
			s += " (" + e.Why + ")"
		}
		parts = append(parts, s)
	}
	if more := count - len(list); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
