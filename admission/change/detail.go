package change

import (
	"maps"
	"slices"
	"strings"
)

// Detail is a change in the form that policies are matched with.
type Detail struct {
	Change
	// At is Path in its segments.
	At []Segment
}

type detail struct {
	lists Lists
	out   []Detail
}

// Details returns the changes that lead from one desired state to another, sorted by path. Unlike Diff it compares
// lists of different length item by item. Items are matched by lists, or by index alone where lists is nil. An item
// that is added or removed is one change of its own; unstored is as in Diff. The index of an item on both sides is
// that in the new list; that of a removed item is that in the old one.
func Details(old, new map[string]any, lists Lists, unstored bool) []Detail {
	d := differ{at: make([]Segment, 0, 8), unstored: unstored, detail: &detail{lists: lists}}
	d.maps(old, new)
	out := d.detail.out
	slices.SortStableFunc(out, func(a, b Detail) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// items compares two lists item by item, after matching their items.
func (d *differ) items(old, new []any) {
	pairs := d.match(old, new)
	matched := make([]bool, len(old))
	top := len(d.at)
	d.at = append(d.at, Segment{Item: true})
	for i, n := range new {
		d.at[top] = Segment{Item: true, Index: i}
		if o := pairs[i]; o >= 0 {
			matched[o] = true
			d.values(old[o], n)
		} else {
			d.found(Insert, nil, n)
		}
	}
	for i, o := range old {
		if !matched[i] {
			d.at[top] = Segment{Item: true, Index: i}
			d.found(Delete, o, nil)
		}
	}
	d.at = d.at[:top]
}

// match returns for each new item the index of the old one; -1 where the item is new. Where items cannot be
// identified, all of them are matched by index.
func (d *differ) match(old, new []any) []int {
	if d.detail.lists != nil {
		if t := d.detail.lists.ListType(d.at); t.Set || len(t.Keys) > 0 {
			o, oldOK := identities(old, t)
			n, newOK := identities(new, t)
			if oldOK && newOK {
				return pairUp(o, n)
			}
		}
	}
	pairs := make([]int, len(new))
	for i := range new {
		pairs[i] = i
		if i >= len(old) {
			pairs[i] = -1
		}
	}
	return pairs
}

// pairUp matches new identities with old ones. It returns for each new one the index of the old one; -1 where no old
// one is the same.
func pairUp(old, new []string) []int {
	at := make(map[string]int, len(old))
	for i, id := range old {
		at[id] = i
	}
	pairs := make([]int, len(new))
	for i, id := range new {
		pairs[i] = -1
		if o, ok := at[id]; ok {
			pairs[i] = o
		}
	}
	return pairs
}

// identities returns the identities of the items of a list; ok is false where two are the same, or one has none. Of
// several keys those that an item lacks count as absent. A port without protocol is an example: the API server has
// not defaulted it yet.
func identities(items []any, t ListType) (out []string, ok bool) {
	seen := make(map[string]bool, len(items))
	for _, item := range items {
		id, has := identity(item, t)
		if !has || seen[id] {
			return nil, false
		}
		seen[id] = true
		out = append(out, id)
	}
	return out, true
}

// identity returns the identity of an item; ok is false where it has none.
func identity(item any, t ListType) (string, bool) {
	if t.Set {
		return string(canonical(item)), true
	}
	m, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	key, some := make([]any, len(t.Keys)), false
	for i, k := range t.Keys {
		v, has := m[k]
		key[i], some = v, some || has
	}
	return string(canonical(key)), some
}

// Leaves visits the leaves of a change. Where a map or list was added or removed, these are its fields and items one
// by one; otherwise it is the changed field itself. visit returns false to stop, and so does Leaves.
func (c Detail) Leaves(visit func(at []Segment) bool) bool {
	value := c.New
	if c.Verb == Delete {
		value = c.Old
	}
	if c.Verb == Mutate {
		return visit(c.At)
	}
	return leaves(value, c.At, visit)
}

// leaves visits the leaves of a value at a place, in the order of their paths. An empty map or list is a leaf.
func leaves(value any, at []Segment, visit func([]Segment) bool) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			if !leaves(v[k], extend(at, Segment{Key: k}), visit) {
				return false
			}
		}
		if len(v) > 0 {
			return true
		}
	case []any:
		for i := range v {
			if !leaves(v[i], extend(at, Segment{Index: i, Item: true}), visit) {
				return false
			}
		}
		if len(v) > 0 {
			return true
		}
	}
	return visit(at)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
