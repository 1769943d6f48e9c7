package change

// Index answers for many patterns at once which of them cover a path. Each has
// marks, bits of the caller's own meaning. The zero Index holds none. It is safe
// for concurrent use once all are added.
type Index struct{ root indexNode }

// indexNode has the marks of the patterns that end at it, and the nodes below by the
// next segment.
type indexNode struct {
	keys  map[string]*indexNode
	items map[int]*indexNode
	any   *indexNode
	marks uint8
}

// Add adds a pattern with its marks. The zero Pattern is not added: it matches nothing.
func (x *Index) Add(p Pattern, marks uint8) {
	if len(p.segments) == 0 {
		return
	}
	n := &x.root
	for _, s := range p.segments {
		n = n.next(s)
	}
	n.marks |= marks
}

// next returns the next node for a segment. It makes the node where it is missing.
func (n *indexNode) next(s patternSegment) *indexNode {
	switch {
	case s.any:
		if n.any == nil {
			n.any = &indexNode{}
		}
		return n.any
	case s.Item:
		if n.items == nil {
			n.items = map[int]*indexNode{}
		}
		if n.items[s.Index] == nil {
			n.items[s.Index] = &indexNode{}
		}
		return n.items[s.Index]
	}
	if n.keys == nil {
		n.keys = map[string]*indexNode{}
	}
	if n.keys[s.Key] == nil {
		n.keys[s.Key] = &indexNode{}
	}
	return n.keys[s.Key]
}

// Covers returns the marks of all patterns that cover a path.
func (x *Index) Covers(path []Segment) uint8 { return x.root.covers(path) }

// covers collects the marks on all ways that a path matches.
func (n *indexNode) covers(path []Segment) uint8 {
	marks := n.marks
	if len(path) == 0 {
		return marks
	}
	if n.any != nil {
		marks |= n.any.covers(path[1:])
	}
	next := n.keys[path[0].Key]
	if path[0].Item {
		next = n.items[path[0].Index]
	}
	if next != nil {
		marks |= next.covers(path[1:])
	}
	return marks
}
