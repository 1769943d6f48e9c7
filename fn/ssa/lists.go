package ssa

import (
	"cmp"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// listType is how server-side apply merges a list (x-kubernetes-list-type). Without
// the schema only managedFields show it: items of an associative list are owned by
// their keys, those of a set by their values, and an atomic list is owned as one. The
// zero listType is atomic.
type listType struct {
	// keys of an associative list's items.
	keys []string
	// set of scalars.
	set bool
}

func (t listType) atomic() bool { return len(t.keys) == 0 && !t.set }

// listTypeOf returns the type of a list, by the first owned item of several managers; atomic where there
// is no such item.
func listTypeOf(owned ...[]listed) listType {
	for _, items := range owned {
		for _, e := range items {
			switch {
			case e.Key != nil:
				t := listType{}
				for _, f := range *e.Key {
					t.keys = append(t.keys, f.Name)
				}
				return t
			case e.Value != nil:
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

// find returns the key of an item among the owned ones; ok is false where it is not owned.
func (t listType) find(owned []listed, item any) (key string, ok bool) {
	for _, e := range owned {
		switch {
		case t.set && e.Value != nil:
			if value.Equals(*e.Value, value.NewValueInterface(item)) {
				return e.key, true
			}
		case e.Key != nil:
			keys := make(map[string]any, len(*e.Key))
			for _, f := range *e.Key {
				keys[f.Name] = f.Value.Unstructured()
			}
			if t.same(keys, item) {
				return e.key, true
			}
		}
	}
	return "", false
}

// index returns the index of the item of a list that is the same as another; -1 where there is no
// such item.
func (t listType) index(list []any, item any) int {
	return slices.IndexFunc(list, func(e any) bool { return t.same(e, item) })
}

// listed is an item of a list that a set holds, itself or something below it.
type listed struct {
	// key in the set.
	key string
	fieldpath.PathElement
}

// items returns the items of a list in a set, those that it holds themselves first, each by their keys.
func (s fieldSet) items() []listed {
	var out []listed
	for key := range s {
		if key == itself || strings.HasPrefix(key, "f:") {
			continue
		}
		if pe, err := fieldpath.DeserializePathElement(key); err == nil {
			out = append(out, listed{key, pe})
		}
	}
	slices.SortFunc(out, func(a, b listed) int {
		held, also := s.holds(a.key), s.holds(b.key)
		switch {
		case held && !also:
			return -1
		case also && !held:
			return 1
		}
		return cmp.Or(a.Compare(b.PathElement), cmp.Compare(a.key, b.key))
	})
	return out
}

// items of a list, by what the pipeline (own, mine) and other managers (oth, theirs)
// own of them.
type items struct {
	listType
	own, oth     fieldSet
	mine, theirs []listed
}

func itemsOf(own, oth fieldSet) items {
	return items{own: own, oth: oth, mine: own.items(), theirs: oth.items()}
}
