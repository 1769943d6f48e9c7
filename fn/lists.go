package fn

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// listType is how server-side apply merges a list. Only managedFields tell it
// without the schema: items of an associative list are owned by their keys,
// those of a set by their values; an atomic list is owned as one.
type listType struct {
	// keys of an associative list's items.
	keys []string
	// set of scalars.
	set bool
}

func (t listType) atomic() bool { return len(t.keys) == 0 && !t.set }

// listTypeOf reads the type off the sets that own something of the list.
func listTypeOf(sets ...*fieldpath.Set) listType {
	for _, s := range sets {
		for pe := range elements(s) {
			switch {
			case pe.Key != nil:
				t := listType{}
				for _, f := range *pe.Key {
					t.keys = append(t.keys, f.Name)
				}
				return t
			case pe.Value != nil:
				return listType{set: true}
			}
		}
	}
	return listType{}
}

// same reports whether two items are one. A key that one of them lacks is
// defaulted by the API server and counts as equal.
func (t listType) same(a, b any) bool {
	if t.set {
		return value.Equals(value.NewValueInterface(a), value.NewValueInterface(b))
	}
	x, ok := a.(map[string]any)
	y, yok := b.(map[string]any)
	if !ok || !yok {
		return false
	}
	common := 0
	for _, k := range t.keys {
		u, has := x[k]
		v, also := y[k]
		if !has || !also {
			continue
		}
		if !value.Equals(value.NewValueInterface(u), value.NewValueInterface(v)) {
			return false
		}
		common++
	}
	return common > 0
}

// find the element of a set that stands for an item.
func (t listType) find(s *fieldpath.Set, item any) (fieldpath.PathElement, bool) {
	for pe := range elements(s) {
		switch {
		case t.set && pe.Value != nil:
			if value.Equals(*pe.Value, value.NewValueInterface(item)) {
				return pe, true
			}
		case pe.Key != nil:
			key := make(map[string]any, len(*pe.Key))
			for _, f := range *pe.Key {
				key[f.Name] = f.Value.Unstructured()
			}
			if t.same(key, item) {
				return pe, true
			}
		}
	}
	return fieldpath.PathElement{}, false
}

// index of the item of a list that is the same as another; -1 for none.
func (t listType) index(list []any, item any) int {
	return slices.IndexFunc(list, func(e any) bool { return t.same(e, item) })
}
