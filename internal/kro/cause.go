package kro

import (
	"slices"

	"github.com/kausality-io/function-kausality/admission/change"
)

const (
	// maxTriggers bounds the fields that one expression depends on; any field of the instance counts beyond it.
	maxTriggers = 256
	// maxReasons bounds what else one expression depends on, of which these are examples.
	maxReasons = 4
)

// anySpec is the trigger that is any field of the instance.
const anySpec = "spec"

// cause is what the value of an expression depends on.
type cause struct {
	// triggers are fields of the instance, sorted, each once.
	triggers []string
	// unknown is what else it depends on, which no change of the instance explains, and where a rule is wider than the expression.
	unknown []string
}

func (c cause) with(other cause) cause {
	c.triggers, c.unknown = union(c.triggers, other.triggers), union(c.unknown, other.unknown)
	c.unknown = c.unknown[:min(len(c.unknown), maxReasons)]
	if len(c.triggers) > maxTriggers || slices.Contains(c.triggers, anySpec) {
		c.triggers = []string{anySpec}
	}
	return c
}

func union(a, b []string) []string {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

// causes of expressions of a graph. Nodes do not form a cycle.
type causes struct {
	*graph
	ofNode map[string]cause
	ofPath map[string]cause
	absent map[string][]owned
	// large: more expressions than maxTriggers leave a resource out.
	large bool
}

// owned is an expression with its node. It may read the iterators of the node.
type owned struct {
	field
	of *node
}

// of returns what an expression of a node depends on.
func (c *causes) of(n *node, f field) cause {
	out := cause{}
	for _, r := range f.reads {
		each, iterator := n.each[r.variable]
		switch {
		case iterator:
			out = out.with(c.of(n, each))
		case r.variable == instanceVariable:
			out = out.with(ofInstance(r.path))
		default:
			out = out.with(c.read(c.byID[r.variable], r.path))
		}
	}
	return out
}

// ofInstance returns what a field of the instance depends on: itself.
func ofInstance(path []change.Segment) cause {
	if len(path) == 0 {
		return cause{triggers: []string{anySpec}, unknown: []string{"it reads the whole instance; its metadata and status are no desired state"}}
	}
	switch text := change.Text(path); {
	case text == anySpec:
		return cause{triggers: []string{anySpec}, unknown: []string{"it may read any field of the instance: a change of each allows it"}}
	case path[0].Key == "spec":
		return cause{triggers: []string{text}}
	case text == "kind", text == "apiVersion":
		return cause{}
	case text == "metadata.name", text == "metadata.namespace", text == "metadata.uid", text == "metadata.creationTimestamp":
		return cause{} // these never change
	default:
		return cause{unknown: []string{text + " of the instance is no desired state: a change of it explains none of a resource"}}
	}
}

// read returns what a field of a resource depends on, the whole of it for the empty path.
func (c *causes) read(n *node, path []change.Segment) cause {
	key := n.id + "." + change.Text(path)
	out, known := c.ofPath[key]
	if !known {
		out = c.readOnce(n, path)
		c.ofPath[key] = out
	}
	return out
}

func (c *causes) readOnce(n *node, path []change.Segment) cause {
	out := cause{}
	for _, name := range n.iterators { // of a collection a list is read
		out = out.with(c.of(n, n.each[name]))
	}
	set := false
	for _, f := range n.fields {
		if len(path) > 0 && change.PatternOf(f.path).Covers(path) {
			out, set = out.with(c.of(n, f)), true
		}
	}
	switch {
	case set || slices.ContainsFunc(n.constants, func(p []change.Segment) bool {
		return len(path) > 0 && change.PatternOf(p).Covers(path)
	}):
		return out
	case n.external:
		return c.whole(n).with(cause{unknown: []string{n.at + " is an external object: a change of it explains none of a resource"}})
	case isOfTemplate(n, path):
		has := slices.ContainsFunc(n.constants, func(p []change.Segment) bool { return change.PatternOf(path).Covers(p) })
		if path[1].Key != "name" && path[1].Key != "namespace" && !has {
			out = out.with(cause{unknown: []string{n.at + " has no " + change.Text(path) + ", so nothing of the instance changes it"}})
		}
		return out
	}
	return out.with(c.whole(n)) // its controller or the API server sets it, by what the template has
}

// isOfTemplate reports whether a field has what the template gives it, or nothing.
func isOfTemplate(n *node, path []change.Segment) bool {
	if len(path) < 2 || path[0].Key != "metadata" || !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, path[1].Key) {
		return false
	}
	return !slices.ContainsFunc(n.fields, func(f field) bool { return change.PatternOf(path).Covers(f.path) })
}

// whole returns what a resource depends on: all of its expressions.
func (c *causes) whole(n *node) cause {
	out, known := c.ofNode[n.id]
	if known {
		return out
	}
	for _, f := range n.expressions() {
		out = out.with(c.of(n, f))
	}
	c.ofNode[n.id] = out
	return out
}

// absence returns the expressions by which kro leaves a resource out: its own, and those of the resources that it reads.
func (c *causes) absence(n *node) []owned {
	out, known := c.absent[n.id]
	if known {
		return out
	}
	add := func(more ...owned) {
		for _, o := range more {
			switch {
			case slices.ContainsFunc(out, func(have owned) bool { return have.line == o.line }):
			case len(out) == maxTriggers:
				c.large = true
			default:
				out = append(out, o)
			}
		}
	}
	for _, f := range n.include {
		add(owned{f, n})
	}
	for _, f := range n.expressions() {
		for _, r := range f.reads {
			if next := c.byID[r.variable]; next != nil && n.each[r.variable].line == "" {
				add(c.absence(next)...)
			}
		}
	}
	c.absent[n.id] = out
	return out
}

// existence returns the expressions by which kro creates and deletes objects of a resource: those of absence, of a collection and of the
// name, since an object with another name is another object.
func (c *causes) existence(n *node) []owned {
	out := slices.Clone(c.absence(n))
	for _, name := range n.iterators {
		out = append(out, owned{n.each[name], n})
	}
	for _, f := range n.fields {
		if text := change.Text(f.path); text == "metadata.name" || text == "metadata.namespace" {
			out = append(out, owned{f, n})
		}
	}
	return out
}
