package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/cli/inspect"
)

type coverageOptions struct {
	format   format
	all      bool
	exitCode bool
}

func (c *cli) coverageCommand() *cobra.Command {
	o := &coverageOptions{}
	cmd := &cobra.Command{
		Use: "coverage", Short: "Show what is not protected, and why.", Args: noArgs,
		Long: "Looks at all claims, composite and managed resources and shows which of them are not protected: not guarded by the webhook, in " +
			"mode log, still initializing, never settling, approved for ever, without a gate, or with nothing to compare.",
		Example: `  kubectl kausality coverage
  kubectl kausality coverage -A -o wide`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.coverage(cmd, o) },
	}
	o.format.add(cmd, formatWide, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Look at all namespaces, and at cluster-scoped objects.")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with 4 if anything is not protected.")
	return cmd
}

func (c *cli) coverage(cmd *cobra.Command, o *coverageOptions) error {
	if err := o.format.check(); err != nil {
		return err
	}
	ns, err := c.namespace()
	if err != nil {
		return err
	}
	if o.all {
		ns = ""
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	found, err := i.Coverage(cmd.Context(), ns)
	if err != nil {
		return err
	}
	if err := c.printCoverage(found, o); err != nil {
		return err
	}
	if o.exitCode && len(found.Gaps) > 0 {
		return errFound
	}
	return nil
}

func (c *cli) printCoverage(found *inspect.Coverage, o *coverageOptions) error {
	if done, err := o.format.structured(c.Out, found); done {
		return err
	}
	if !found.Installed {
		fmt.Fprintln(c.Out, c.paint.red("The webhook is not installed: there is no webhook configuration kausality."))
	}
	fmt.Fprintf(c.Out, "%d of %s of %s are protected.\n", found.Protected, plural(found.Objects, "object"), plural(found.Kinds, "kind"))
	last := inspect.Gap("")
	w := printers.GetNewTabWriter(c.Out)
	for _, g := range found.Gaps {
		if g.Gap != last {
			last = g.Gap
			if err := w.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(c.Out, "\n%s  %s\n", c.paint.yellow(string(g.Gap)), inspect.Explained[g.Gap])
		}
		if g.Count == 0 {
			fmt.Fprintf(w, "  %s\n", g.Resource)
			continue
		}
		fmt.Fprintf(w, "  %s\t%d\t%s\n", g.Resource, g.Count, examples(g, o.format.value == formatWide))
	}
	return w.Flush()
}

// examples of a gap, with why each has it where there is room.
func examples(g inspect.KindGap, wide bool) string {
	parts := make([]string, 0, len(g.Examples)+1)
	for _, e := range g.Examples {
		s := e.Name
		if e.Namespace != "" {
			s = e.Namespace + "/" + s
		}
		if wide && e.Why != "" {
			s += " (" + e.Why + ")"
		}
		parts = append(parts, s)
	}
	if more := g.Count - len(g.Examples); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}
