package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// Output formats of trace alone.
const (
	formatMermaid = "mermaid"
	formatDot     = "dot"
	formatSVG     = "svg"
)

// traceCommand shows the chain of causes of an object's last change.
type traceCommand struct {
	*session
	arguments
	format format
	historySource
	since period
}

// newTraceCommand returns `kubectl kausality trace`. It reads the annotation trace.
func newTraceCommand(s *session) *cobra.Command {
	c := &traceCommand{session: s, since: period(defaultSince)}
	cmd := &cobra.Command{
		Use: "trace (TYPE/NAME | ID)", Short: "Show who caused an object to be as it is, from the origin to the object, and the objects below it.",
		Long: "Shows who caused an object to be as it is, from the origin to the object, and the objects below it.\n\n" +
			"With a trace id, 16 hex digits as tags of a cloud or variables of Terraform have it: shows whose intent it is of, and the objects that have it, in all " +
			"namespaces or in that of -n. An object has the id of its last change; where none has it, the history is searched for the intent. " +
			"Exits with 1 where nothing has the id, and with 5 where something has it, and you may not list all kinds.",
		Example: `  # Who changed this database last, and through what?
  kubectl kausality trace database/orders-da6cb79af0ff

  # With times, and as a picture
  kubectl kausality trace xdatabase orders -o wide
  kubectl kausality trace xdatabase orders -o svg > orders.svg

  # Whose change is it that a tag kausality.io/trace-id in the cloud identifies?
  kubectl kausality trace 5f0c7d1e8a3b9246`,
		ValidArgsFunction: completer{s}.object,
		RunE:              runs(c),
	}
	c.format.add(cmd, formatWide, formatName, formatJSON, formatYAML, formatMermaid, formatDot, formatSVG)
	c.addFlags(cmd)
	cmd.Flags().Var(&c.since, "since", "How far back a trace id is searched for in the history, as in 90d or 12h.")
	cmd.Flags().Lookup("since").DefValue = "90d"
	return cmd
}

// run prints the chain of causes of one object, also where a part of it cannot be
// read.
func (c *traceCommand) run(ctx context.Context) error {
	if len(c.args) == 1 && !strings.Contains(c.args[0], "/") && change.IsID(strings.ToLower(c.args[0])) {
		return c.id(ctx, strings.ToLower(c.args[0]))
	}
	t, err := c.object(c.cmd, c.args)
	if err != nil {
		return err
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	chain, err := i.Chain(ctx, t.Unstructured)
	if err != nil {
		return err
	}
	return c.print(chain)
}

// print prints the chain in the format of the flag.
func (c *traceCommand) print(chain *inspect.Chain) error {
	if done, err := c.format.structured(c.Out, chain); done {
		return err
	}
	switch c.format.value {
	case formatName:
		for _, h := range chain.Hops {
			fmt.Fprintln(c.Out, slashed(schema.FromAPIVersionAndKind(h.APIVersion, h.Kind), h.Name))
		}
		return nil
	case formatMermaid:
		mermaid.draw(c.Out, chain.Hops)
		return nil
	case formatDot:
		dot.draw(c.Out, chain.Hops)
		return nil
	case formatSVG:
		svg(c.Out, chain.Hops)
		return nil
	}
	c.view.chain(chain, c.format.value == formatWide).draw(c.Out)
	for _, n := range chain.Notes {
		fmt.Fprintln(c.Out, c.view.yellow(n))
	}
	return nil
}

// chain returns the chain as a tree with each hop below the one that caused it.
func (v view) chain(chain *inspect.Chain, wide bool) *node {
	top := &node{}
	at := top
	for _, h := range chain.Hops {
		at = at.add(v.hop(h, chain.Object.Namespace, wide), v.hopLines(h)...)
	}
	v.descendants(at, chain.Children, wide)
	if len(top.nodes) == 0 {
		return top
	}
	return top.nodes[0]
}

// descendants adds the descendants as nodes below the object of a trace.
func (v view) descendants(n *node, children []inspect.Descendant, wide bool) {
	for _, d := range children {
		if d.Hop == nil {
			n.addf("%s: %s", v.bold(channel.Describe(d.Object)), v.yellow(d.Note))
		} else {
			v.descendants(n.add(v.hop(*d.Hop, d.Object.Namespace, wide), v.hopLines(*d.Hop)...), d.Children, wide)
		}
		if d.More > 0 {
			n.addf("and %d more, each with a trace of its own", d.More)
		}
	}
}
