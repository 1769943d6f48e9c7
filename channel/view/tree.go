package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// annotationExternalName names the external resource of a managed resource, as Crossplane has it.
const annotationExternalName = "crossplane.io/external-name"

// Node of the tree from a user to the external system.
type Node struct {
	// Kind is person, object, held or cloud.
	Kind string
	// Text is what it is.
	Text string
	// Object that it is; nil for none, and for one without a name.
	Object *v1alpha1.ObjectReference
	// Lines are what is known of it.
	Lines []string
	// At is when it was last changed; zero for unknown.
	At    metav1.Time
	Nodes []*Node
}

// add adds a node below.
func (n *Node) add(below *Node) *Node {
	n.Nodes = append(n.Nodes, below)
	return below
}

// trees of objects and changes.
type trees struct{ *reader }

// Known is what is known of an object or a change.
type Known struct {
	// Tree from the user at the origin of the last change to the external system; nil where the object cannot be read.
	Tree *Node
	// Notes are about what cannot be read.
	Notes []string
	// hops of the trace, and the gate; nil where they are unknown, and where there is no gate.
	hops []v1alpha1.Hop
	gate *inspect.Gate
}

// note notes that something is unknown.
func (k *Known) note(what string, err error) {
	if err != nil {
		k.Notes = append(k.Notes, what+": "+err.Error())
	}
}

// tree returns the tree of an object: from the user at the origin of its last change through the objects to what is below it and to the external system.
// held is a change that waits; nil for none.
func (t trees) tree(ctx context.Context, i *inspect.Inspector, o *unstructured.Unstructured, held *v1alpha1.Drift) (k Known) {
	chain, err := i.Chain(ctx, o)
	k.note("The trace is not known", err)
	e, err := i.Explain(ctx, o, nil)
	k.note("The gate is not known", err)
	k.Tree = &Node{Kind: "person", Text: "an unknown user"}
	at := k.Tree
	if chain != nil {
		k.hops, k.Notes = chain.Hops, append(k.Notes, chain.Notes...)
		for n, h := range chain.Hops {
			if n == 0 {
				k.Tree.Text = channel.UserOf(h)
			}
			at = at.add(t.hop(h, v1alpha1.ObjectReference{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Namespace, Name: h.Name}))
		}
		t.below(at, chain.Children)
	}
	if held != nil {
		at.add(&Node{Kind: "held", Text: "Held: " + channel.Clip(channel.Summary(held)), At: channel.Since(held)})
	}
	if e != nil && e.Gate != nil {
		k.gate = e.Gate
		at.add(cloudOf(o, e.Gate))
	}
	return k
}

// hop returns the hop as a node.
func (t trees) hop(h v1alpha1.Hop, o v1alpha1.ObjectReference) *Node {
	o.Name = cmp.Or(o.Name, h.Name)
	n := &Node{Kind: "object", Text: channel.Describe(o), Object: named(o), At: h.Timestamp}
	by := "changed by " + channel.UserOf(h)
	if h.Generation > 0 {
		by = fmt.Sprintf("generation %d, by %s", h.Generation, channel.UserOf(h))
	}
	n.Lines = append(n.Lines, by)
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		n.Lines = append(n.Lines, k+": "+h.Labels[k])
	}
	if h.Unrequested {
		n.Lines = append(n.Lines, "unrequested, and passed: "+cmp.Or(string(h.Passed), "unknown why"))
	}
	n.Lines = append(n.Lines, channel.CauseLines(h.Causes)...)
	if a := h.Approval; a != nil {
		n.Lines = append(n.Lines, "approved"+approval.ByText(a))
	}
	return n
}

// below adds the descendants of an object.
func (t trees) below(n *Node, children []inspect.Descendant) {
	for _, d := range children {
		one := &Node{Kind: "object", Text: channel.Describe(d.Object), Object: named(d.Object), Lines: []string{d.Note}}
		if d.Hop != nil {
			one = t.hop(*d.Hop, d.Object)
		}
		t.below(n.add(one), d.Children)
		if d.More > 0 {
			n.add(&Node{Kind: "object", Text: fmt.Sprintf("and %d more", d.More)})
		}
	}
}

// cloudOf returns the cloud of a managed resource: its external resource, and the gate before it.
func cloudOf(o *unstructured.Unstructured, g *inspect.Gate) *Node {
	n := &Node{Kind: "cloud", Text: "External resource " + cmp.Or(o.GetAnnotations()[annotationExternalName], "without a name")}
	line := func(format string, args ...any) { n.Lines = append(n.Lines, fmt.Sprintf(format, args...)) }
	if g.Unsupported {
		line("no gate: %s", g.Why)
		return n
	}
	switch g.State {
	case v1alpha1.GateOpen:
		line("gate open since %s, %s", g.Transition.At.UTC().Format(time.RFC3339), g.Transition.Reason)
	case "":
		line("no gate: its provider may change it at any time")
	default:
		line("gate %s: its provider may: %s", strings.ToLower(string(g.State)), cmp.Or(strings.Join(g.Policies, ", "), "nothing"))
	}
	if g.Why != "" {
		line("%s", g.Why)
	}
	for _, f := range g.Difference {
		line("external drift: %s", channel.Clip(channel.Field(f)))
	}
	if g.Gone {
		line("it does not exist any more")
	}
	if g.Blind != "" {
		line("external drift is unknown: %s", g.Blind.Why())
	}
	return n
}

// of returns what is known of the object of a change, or of the parent where the object does not exist.
func (t trees) of(ctx context.Context, i *inspect.Inspector, d *v1alpha1.Drift) Known {
	o, err := t.object(ctx, d.Spec.Child)
	if err == nil {
		return t.tree(ctx, i, o, d)
	}
	var before Known
	if !errors.Is(err, errUnnamed) {
		before.note("The object is not shown", err)
	}
	if o, err = t.object(ctx, d.Spec.Parent); err != nil {
		before.note("The parent is not shown", err)
		return before
	}
	k := t.tree(ctx, i, o, d)
	k.Notes, k.gate = append(before.Notes, k.Notes...), nil // the gate of the parent is not its gate
	return k
}

// named returns a reference to an object that has a name; nil for another.
func named(o v1alpha1.ObjectReference) *v1alpha1.ObjectReference {
	if o.Name == "" {
		return nil
	}
	return &o
}
