package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// pendingCommand lists pending changes by their causes.
type pendingCommand struct {
	*session
	arguments
	format   format
	filter   driftFilter
	limit    int
	summary  bool
	exitCode bool
	// rulings of changes; nil where that is not read.
	rulings func(*v1alpha1.Drift) channel.Ruling
}

// newPendingCommand returns `kubectl kausality pending`. It reads Drifts, and what the
// composition function holds back.
func newPendingCommand(s *session) *cobra.Command {
	c := &pendingCommand{session: s}
	cmd := &cobra.Command{
		Use: "pending [TYPE/NAME]", Short: "List pending changes, by their cause.",
		Long: "Lists what waits for approval: one block for each cause, across namespaces, with its author, how many objects it would " +
			"change, which fields, and the newest changes with their ids. Further output is one line that names the command for it. " +
			"-o json, yaml and name always contain all changes.",
		Example: `  # Pending changes of this namespace, and of all of them
  kubectl kausality pending
  kubectl kausality pending -A

  # One line for each cause, and all changes of one of them
  kubectl kausality pending -A --summary
  kubectl kausality pending -A --cause xdatabases-7f3 --limit 0

  # Pending changes below the objects of one team, and below one object
  kubectl kausality pending -A -l team=shop
  kubectl kausality pending xdatabase/orders -o wide`,
		ValidArgsFunction: completer{s}.object,
		RunE:              runs(c),
	}
	c.format.add(cmd, formatWide, formatName, formatJSON, formatYAML)
	c.filter.add(cmd)
	fl := cmd.Flags()
	fl.IntVar(&c.limit, "limit", defaultListed, "How many changes of each cause are listed; 0 lists all.")
	fl.BoolVar(&c.summary, "summary", false, "Print one line for each cause.")
	fl.BoolVar(&c.exitCode, "exit-code", false, "Exit with 4 if any change is pending.")
	return cmd
}

// Bounds of what pending lists by default: changes of each cause, and causes (KR-12-20).
const (
	defaultListed = 10
	maxCauses     = 5
)

// validate validates the flags.
func (c *pendingCommand) validate() error {
	switch {
	case c.limit < 0:
		return usageError{errors.New("--limit must not be negative; 0 lists all")}
	case c.summary && c.format.value != formatTable:
		return usageError{errors.New("--summary and --output exclude each other; -o json contains all changes")}
	case len(c.args) > 0 && (c.filter.selector != "" || c.filter.everywhere):
		return usageError{errors.New("name an object, or select changes with --selector or --all-namespaces, not both")}
	}
	return checkSelector(c.filter.selector)
}

// run lists the pending changes; errFound with --exit-code where there are any.
func (c *pendingCommand) run(ctx context.Context) error {
	list, scope, err := driftFinder{c.session}.open(c.cmd, c.args, &c.filter)
	if err != nil {
		return err
	}
	if err := c.read(ctx, list); err != nil {
		return err
	}
	if err := c.print(list, scope); err != nil {
		return err
	}
	return foundIf(c.exitCode && (len(list) > 0 || len(scope.behind) > 0))
}

// read reads what was decided about changes, where it is printed.
func (c *pendingCommand) read(ctx context.Context, list []v1alpha1.Drift) error {
	if len(list) == 0 || c.summary || c.format.value != formatTable && c.format.value != formatWide {
		return nil
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	all := i.Rulings()
	if c.rulings, err = all.Of(ctx, list); err != nil {
		return err
	}
	for _, err := range all.Unread {
		fmt.Fprintf(c.ErrOut, "Not read: %v. Whether changes below it are rejected, frozen or snoozed is unknown.\n", err)
	}
	return nil
}

// ruling returns the ruling of a change.
func (c *pendingCommand) ruling(d *v1alpha1.Drift) channel.Ruling {
	if c.rulings == nil {
		return channel.Ruling{}
	}
	return c.rulings(d)
}

// print prints Drifts.
func (c *pendingCommand) print(list []v1alpha1.Drift, s scope) error {
	all := &v1alpha1.DriftList{
		Items:    append([]v1alpha1.Drift{}, list...), // an empty list where there is none, as kubectl get prints it
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DriftList"},
	}
	if c.format.value != formatTable && c.format.value != formatWide && len(s.behind) > 0 {
		fmt.Fprintf(c.ErrOut, "Not listed: %s held behind a freeze or a rejection, which cannot be approved meanwhile.\n", channel.Plural(len(s.behind), "change"))
	}
	if done, err := c.format.structured(c.Out, all); done {
		return err
	}
	return c.printText(list, s)
}

// printText prints Drifts as a table or as names.
func (c *pendingCommand) printText(list []v1alpha1.Drift, s scope) error {
	if c.format.value == formatName {
		return c.printNames(list)
	}
	if len(list) == 0 && s.freeze == nil && len(s.behind) == 0 {
		_, err := fmt.Fprintf(c.ErrOut, "Nothing waits for approval %s.\n", s.where)
		return err
	}
	defer c.printBehind(s)
	groups := channel.ByCause(list)
	if c.summary && len(list) > 0 {
		return c.summarize(groups)
	}
	shown := groups
	if c.limit > 0 && len(groups) > maxCauses+1 { // a line for one cause more would be no shorter than its block
		shown = groups[:maxCauses]
	}
	for n, g := range shown {
		if n > 0 {
			fmt.Fprintln(c.Out)
		}
		if err := c.printGroup(g, s); err != nil {
			return err
		}
	}
	if left := groups[len(shown):]; len(left) > 0 {
		n := 0
		for _, g := range left {
			n += len(g.Drifts)
		}
		_, err := fmt.Fprintf(c.Out, "\n%s of %s more; to list the causes: kubectl kausality pending%s --summary\n",
			channel.Plural(n, "change"), channel.Plural(len(left), "cause"), s.args)
		return err
	}
	return nil
}

// summarize prints the groups, one line each.
func (c *pendingCommand) summarize(groups []*channel.Group) error {
	w := printers.GetNewTabWriter(c.Out)
	fmt.Fprintln(w, "KEY\tCHANGES\tOBJECTS\tNAMESPACES\tAGE\tCAUSE")
	for _, g := range groups {
		title := g.Title
		if len(g.Drifts[0].Spec.Causes) == 1 {
			title += channel.AuthorOf(g.Drifts[0].Spec.Causes[0])
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", g.Key, len(g.Drifts), g.Objects(), len(g.Namespaces()), c.view.age(channel.Since(g.Oldest())), channel.Clip(title))
	}
	return w.Flush()
}

// printNames prints the names of the Drifts that exist, so that each of them can be given to
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
	_, err := fmt.Fprintf(c.ErrOut, "Not listed: %s that the composition function holds without a Drift; -o json lists all.\n", channel.Plural(held, "change"))
	return err
}

// suggestRollout is the number of objects above which a Rollout is suggested.
const suggestRollout = 5

// printGroup prints a group as a table below its cause, with the command that approves all of it.
func (c *pendingCommand) printGroup(g *channel.Group, s scope) error {
	card := channel.CardOf(g, c.ruling, s.args)
	fmt.Fprintf(c.Out, "%s: %s, since %s\n", c.view.bold(card.Title), card.Counts, c.view.age(card.Since))
	for _, line := range card.Causes {
		fmt.Fprintln(c.Out, "  "+line)
	}
	drifts := g.Drifts
	if c.limit > 0 && len(drifts) > c.limit {
		drifts = drifts[:c.limit]
		for _, line := range card.Fields {
			fmt.Fprintln(c.Out, "  "+line)
		}
	}
	listed := lists.Map(drifts, func(d *v1alpha1.Drift) channel.Entry { return channel.EntryOf(d, c.ruling(d)) })
	if err := c.printTable(listed, len(g.Namespaces()) > 1); err != nil {
		return err
	}
	if left := len(g.Drifts) - len(listed); left > 0 {
		fmt.Fprintf(c.Out, "  %d more; to list them: kubectl kausality pending%s --cause %s --limit 0\n", left, s.args, card.Key)
	}
	for _, line := range card.Decided {
		fmt.Fprintln(c.Out, "  "+line)
	}
	if card.Approve == "" {
		return nil // all of them are rejected
	}
	if _, err := fmt.Fprintf(c.Out, "  To approve: %s\n", card.Approve); err != nil || g.Objects() <= suggestRollout {
		return err
	}
	if _, err := causeOf(g.Drifts[0], s.args); err != nil {
		return nil //nolint:nilerr // A Rollout cannot select them.
	}
	where := strings.Replace(s.args, " -A", " --cluster", 1)
	_, err := fmt.Fprintf(c.Out, "  In waves: kubectl kausality rollout start NAME%s --cause %s\n", where, card.Key)
	return err
}

// printBehind prints what no approval lets pass, and the freeze of what was named.
func (c *pendingCommand) printBehind(s scope) {
	if f := s.freeze; f != nil {
		fmt.Fprintf(c.Out, "Frozen: %s. To end it: %s\n", f.Why(), channel.OwnCommands(f.End(), nil))
	}
	if len(s.behind) == 0 {
		if s.freeze != nil {
			fmt.Fprintln(c.Out, "The composition function holds nothing behind it; the webhook refuses all changes below it.")
		}
		return
	}
	fmt.Fprintf(c.Out, "%s held behind a freeze or a rejection, which cannot be approved meanwhile:\n", channel.Plural(len(s.behind), "change"))
	listed := s.behind
	if c.limit > 0 {
		listed = listed[:min(len(listed), c.limit)]
	}
	for i := range listed {
		fmt.Fprintf(c.Out, "  %s, below %s\n", channel.Clip(behind(&listed[i])), channel.Describe(listed[i].Parent))
	}
	if left := len(s.behind) - len(listed); left > 0 {
		fmt.Fprintf(c.Out, "  %d more; to list them: kubectl kausality pending%s --limit 0\n", left, s.args)
	}
}

// printTable prints a table of changes; spaces is true if they belong to several namespaces.
func (c *pendingCommand) printTable(list []channel.Entry, spaces bool) error {
	w, wide := printers.GetNewTabWriter(c.Out), c.format.value == formatWide
	header := []string{"  ID", "AGE", "PARENT", "CHANGE"}
	if spaces {
		header = slices.Insert(header, 1, "NAMESPACE")
	}
	stated := slices.ContainsFunc(list, func(e channel.Entry) bool { return e.State != "" })
	if stated {
		header = slices.Insert(header, len(header)-2, "STATE")
	}
	if wide {
		header = slices.Insert(header, len(header)-2, "COUNT", "USER")
	}
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, e := range list {
		d := e.Drift
		cells, text := []string{"  " + d.Name}, e.Change
		if spaces {
			cells = append(cells, d.Namespace)
		}
		cells = append(cells, c.view.age(e.Since))
		if stated {
			cells = append(cells, cmp.Or(e.State, "-"))
		}
		if wide {
			cells = append(cells, fmt.Sprint(d.Status.Count), cmp.Or(d.Spec.User, "-"))
		} else {
			text = channel.Clip(text)
		}
		fmt.Fprintln(w, strings.Join(append(cells, e.Parent, text), "\t"))
	}
	return w.Flush()
}
