package page

import (
	"github.com/kausality-io/function-kausality/channel/view"
)

// node of the tree from a user to the external system, with its link.
type node struct {
	*view.Node
	// Href leads to its page, empty for none.
	Href  string
	Nodes []*node
}

// tree returns the tree with links; nil for none.
func (l links) tree(n *view.Node) *node {
	if n == nil {
		return nil
	}
	out := &node{Node: n}
	if n.Object != nil {
		out.Href = l.object(*n.Object)
	}
	for _, below := range n.Nodes {
		out.Nodes = append(out.Nodes, l.tree(below))
	}
	return out
}
