package fn

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// prune takes out of a value, which the pipeline applied and no longer wants,
// all that is its own. keep is false where nothing is left of it.
//
// Structured-merge-diff drops a value as a whole, what others put into it
// included, unless somebody else owns the value itself. Fields of a struct and
// lists are owned along with anything in them.
func prune(v any, p at) (rest any, keep bool) {
	own, oth := p.below()
	if !holds(p.oth, p.pe) && (oth == nil || holds(p.own, p.pe)) {
		return nil, false
	}
	if own == nil {
		return v, true
	}
	switch t := v.(type) {
	case map[string]any:
		return pruneMap(t, own, oth), true
	case []any:
		rest := prunedItems(listTypeOf(own, oth), slices.Clone(t), nil, own, oth)
		return rest, len(rest) > 0 // a list that loses all its items goes with them
	}
	return v, true
}

func pruneMap(v map[string]any, own, oth *fieldpath.Set) map[string]any {
	out := maps.Clone(v)
	for pe := range elements(own) {
		if pe.FieldName == nil {
			continue
		}
		e, ok := v[*pe.FieldName]
		if !ok {
			continue
		}
		if rest, keep := prune(e, at{pe, own, oth}); keep {
			out[*pe.FieldName] = rest
		} else {
			delete(out, *pe.FieldName)
		}
	}
	return out
}
