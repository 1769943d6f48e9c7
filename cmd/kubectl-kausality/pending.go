package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

type pendingOptions struct {
	format   format
	all      bool
	exitCode bool
}

func (c *cli) pendingCommand() *cobra.Command {
	o := &pendingOptions{}
	cmd := &cobra.Command{
		Use: "pending [TYPE/NAME]", Short: "List what waits for approval, by its cause.",
		Example: `  # What waits in this namespace, and in all of them
  kubectl kausality pending
  kubectl kausality pending -A

  # What waits below one object, in full
  kubectl kausality pending xdatabase/orders -o wide`,
		ValidArgsFunction: c.completeObjects,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.pending(cmd, args, o) },
	}
	o.format.add(cmd, formatWide, formatName, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "List those of all namespaces.")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with 4 if anything waits.")
	return cmd
}

func (c *cli) pending(cmd *cobra.Command, args []string, o *pendingOptions) error {
	if err := o.format.check(); err != nil {
		return err
	}
	list, where, err := c.open(cmd, args, o.all)
	if err != nil {
		return err
	}
	if err := c.printPending(list, where, o); err != nil {
		return err
	}
	if o.exitCode && len(list) > 0 {
		return errFound
	}
	return nil
}

// open Drifts about objects, or of namespaces; where says of which, for people.
func (c *cli) open(cmd *cobra.Command, args []string, all bool) (list []v1alpha1.Drift, where string, err error) {
	ns, err := c.namespace()
	if err != nil {
		return nil, "", err
	}
	client, err := c.client()
	if err != nil {
		return nil, "", err
	}
	where = "in namespace " + ns
	if all {
		ns, where = "", "in any namespace"
	}
	if len(args) == 0 {
		mapper, err := c.mapper()
		if err != nil {
			return nil, "", err
		}
		list, err = inspect.Pending(cmd.Context(), client, mapper, ns)
		return list, where, err
	}
	t, err := c.object(cmd, args)
	if err != nil {
		return nil, "", err
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return nil, "", err
	}
	list, err = openAbout(cmd.Context(), i, t)
	return list, "about " + t.describe(), err
}

func openAbout(ctx context.Context, i *inspect.Inspector, t target) ([]v1alpha1.Drift, error) {
	about, err := i.About(ctx, t.Unstructured)
	if err != nil {
		return nil, err
	}
	out := about[:0]
	for _, d := range about {
		if inspect.Open(&d) {
			out = append(out, d)
		}
	}
	return out, nil
}

func (c *cli) printPending(list []v1alpha1.Drift, where string, o *pendingOptions) error {
	all := &v1alpha1.DriftList{Items: list, TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DriftList"}}
	if done, err := o.format.structured(c.Out, all); done {
		return err
	}
	if o.format.value == formatName {
		for _, d := range list {
			fmt.Fprintln(c.Out, "drift."+v1alpha1.Group+"/"+d.Name)
		}
		return nil
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(c.ErrOut, "Nothing waits for approval %s.\n", where)
		return err
	}
	for n, g := range byCause(list) {
		if n > 0 {
			fmt.Fprintln(c.Out)
		}
		if err := c.group(g, o.format.value == formatWide); err != nil {
			return err
		}
	}
	return nil
}

// group of Drifts that have one cause, in one namespace.
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

func (c *cli) group(g *group, wide bool) error {
	cause := g.cause
	if cause == "" {
		cause = "unknown cause"
	}
	oldest := inspect.Since(&g.drifts[len(g.drifts)-1])
	fmt.Fprintf(c.Out, "%s: %s, since %s\n", c.paint.bold(upper(cause)), plural(len(g.drifts), "change"), c.age(oldest))
	w := printers.GetNewTabWriter(c.Out)
	header := "  ID\tAGE\tPARENT\tCHANGE"
	if wide {
		header = "  ID\tAGE\tCOUNT\tUSER\tPARENT\tCHANGE"
	}
	fmt.Fprintln(w, header)
	ids := make([]string, 0, len(g.drifts))
	for i := range g.drifts {
		d := &g.drifts[i]
		ids = append(ids, d.Name)
		cells := []string{"  " + d.Name, c.age(inspect.Since(d)), describeRef(d.Spec.Parent), summary(d)}
		if wide {
			cells = []string{"  " + d.Name, c.age(inspect.Since(d)), fmt.Sprint(d.Status.Count), or(d.Spec.User, "-"), describeRef(d.Spec.Parent), summary(d)}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.Out, "  To approve: kubectl kausality approve%s %s\n", namespaceFlag(g.namespace), strings.Join(ids, " "))
	return err
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// upper makes the first letter of a sentence a capital.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
