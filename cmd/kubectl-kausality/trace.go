package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/identity"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

const (
	formatMermaid = "mermaid"
	formatDot     = "dot"
	formatSVG     = "svg"
)

func (c *cli) traceCommand() *cobra.Command {
	f := &format{}
	cmd := &cobra.Command{
		Use: "trace TYPE/NAME", Short: "Show who caused an object to be as it is, from the origin to the object.",
		Example: `  # Who changed this database last, and through what?
  kubectl kausality trace database/orders-da6cb79af0ff

  # With times, and as a picture
  kubectl kausality trace xdatabase orders -o wide
  kubectl kausality trace xdatabase orders -o svg > orders.svg`,
		ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			t, err := c.object(cmd, args)
			if err != nil {
				return err
			}
			i, err := c.inspector(cmd.Context())
			if err != nil {
				return err
			}
			chain, err := i.Chain(cmd.Context(), t.Unstructured)
			if err != nil {
				return err
			}
			return c.printChain(f, chain)
		},
	}
	f.add(cmd, formatWide, formatName, formatJSON, formatYAML, formatMermaid, formatDot, formatSVG)
	return cmd
}

func (c *cli) printChain(f *format, chain *inspect.Chain) error {
	if done, err := f.structured(c.Out, chain); done {
		return err
	}
	switch f.value {
	case formatName:
		for _, h := range chain.Hops {
			fmt.Fprintln(c.Out, slashed(h))
		}
		return nil
	case formatMermaid:
		mermaid(c.Out, chain.Hops)
		return nil
	case formatDot:
		dot(c.Out, chain.Hops)
		return nil
	case formatSVG:
		svg(c.Out, chain.Hops)
		return nil
	}
	c.chainTree(chain, f.value == formatWide).draw(c.Out)
	for _, n := range chain.Notes {
		fmt.Fprintln(c.Out, c.paint.yellow(n))
	}
	return nil
}

// chainTree is a trace with each hop below the one that caused it.
func (c *cli) chainTree(chain *inspect.Chain, wide bool) *node {
	top := &node{}
	at := top
	for _, h := range chain.Hops {
		at = at.add(c.hop(h, chain.Object.Namespace, wide), c.hopLines(h)...)
	}
	if len(top.nodes) == 0 {
		return top
	}
	return top.nodes[0]
}

// hop in one line: what, which generation, who, when.
func (c *cli) hop(h v1alpha1.Hop, carrier string, wide bool) string {
	out := c.paint.bold(hopName(h))
	if h.ClusterScoped && carrier != "" {
		out += " (cluster-scoped)"
	}
	if h.Generation > 0 {
		out += fmt.Sprintf(", generation %d", h.Generation)
	}
	return out + ", by " + c.who(h) + c.when(h.Timestamp, wide)
}

func hopName(h v1alpha1.Hop) string {
	return describeRef(v1alpha1.ObjectReference{Kind: h.Kind, Namespace: h.Namespace, Name: cmp.Or(h.Name, "(name generated)")})
}

func slashed(h v1alpha1.Hop) string {
	kind := refOf(v1alpha1.ObjectReference{APIVersion: h.APIVersion, Kind: h.Kind})
	out := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		out += "." + kind.Group
	}
	return out + "/" + h.Name
}

func (c *cli) who(h v1alpha1.Hop) string {
	switch {
	case h.Unattributed && h.User == "":
		return c.paint.yellow("somebody unknown (nobody watched)")
	case h.User == "":
		return c.paint.yellow("somebody unknown")
	}
	return c.paint.green(h.User)
}

// when as an age, or as a time where there is room.
func (c *cli) when(t metav1.Time, wide bool) string {
	switch {
	case t.IsZero():
		return ""
	case wide:
		return ", at " + t.UTC().Format(time.RFC3339)
	}
	return ", " + c.age(t) + " ago"
}

func (c *cli) age(t metav1.Time) string {
	if t.IsZero() {
		return "?"
	}
	return duration.HumanDuration(c.now().Sub(t.Time))
}

// hopLines are what else is known of a hop.
func (c *cli) hopLines(h v1alpha1.Hop) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		out = append(out, k+": "+h.Labels[k])
	}
	if a := h.Approval; a != nil {
		line := "approved (" + string(a.Mode) + ")"
		if a.Digest != "" {
			line += ": difference " + a.Digest
		}
		out = append(out, line)
	}
	return out
}

// describeRef names an object for people.
func describeRef(o v1alpha1.ObjectReference) string {
	return identity.Describe(parent.Ref{GroupVersionKind: schema.GroupVersionKind{Kind: o.Kind}, Namespace: o.Namespace, Name: o.Name})
}

// roles for people.
var roles = map[parent.Role]string{
	parent.RoleComposite: "composite resource", parent.RoleManaged: "managed resource", parent.RoleClaim: "claim",
}
