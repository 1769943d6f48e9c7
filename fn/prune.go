package fn

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// prune takes out of a value, which the pipeline applied and no longer wants,
// all that is its own. keep is false where nothing is left of it.
func (m *merger) prune(v any, p at) (rest any, keep bool) {
	m.doubt = true
	if m.others == nil {
		return v, true // the second pass does it
	}
	own, oth := p.below()
	if own == nil {
		return v, holds(p.oth, p.pe) || oth != nil
	}
	switch t := v.(type) {
	case map[string]any:
		out := m.pruneMap(t, own, oth)
		return out, len(out) > 0 || holds(p.oth, p.pe)
	case []any:
		out := m.pruneList(t, own, oth)
		return out, len(out) > 0 || holds(p.oth, p.pe)
	}
	return v, holds(p.oth, p.pe)
}

func (m *merger) pruneMap(v map[string]any, own, oth *fieldpath.Set) map[string]any {
	out := maps.Clone(v)
	for _, pe := range elements(own) {
		if pe.FieldName == nil {
			continue
		}
		e, ok := v[*pe.FieldName]
		if !ok {
			continue
		}
		if rest, keep := m.prune(e, at{pe, own, oth}); keep {
			out[*pe.FieldName] = rest
		} else {
			delete(out, *pe.FieldName)
		}
	}
	return out
}

func (m *merger) pruneList(v []any, own, oth *fieldpath.Set) []any {
	t := listTypeOf(own, oth)
	return m.prunedItems(t, slices.Clone(v), nil, own, oth)
}
