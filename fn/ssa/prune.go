package ssa

import "maps"

// prune returns what is left of a value that the pipeline applied and no longer wants.
// keep is false where nothing is. p is the place of the value.
//
// Structured-merge-diff removes a value as a whole, with what other managers set in it,
// unless another manager owns the value itself. Fields of a struct and lists are owned
// along with anything in them.
func prune(v any, p at) (rest any, keep bool) {
	own, oth := p.below()
	if !p.oth.holds(p.key) && (oth == nil || p.own.holds(p.key)) {
		return nil, false
	}
	if own == nil {
		return v, true
	}
	switch t := v.(type) {
	case map[string]any:
		return pruneMap(t, own, oth), true
	case []any:
		l := itemsOf(own, oth)
		l.listType = listTypeOf(l.mine, l.theirs)
		rest := l.pruned(t, nil)
		return rest, len(rest) > 0 // a list that loses all its items goes with them
	}
	return v, true
}

func pruneMap(v map[string]any, own, oth fieldSet) map[string]any {
	out := maps.Clone(v)
	for key, name := range own.fields() {
		e, ok := v[name]
		if !ok {
			continue
		}
		if rest, keep := prune(e, at{key, own, oth}); keep {
			out[name] = rest
		} else {
			delete(out, name)
		}
	}
	return out
}
