package ssa

import (
	"maps"
	"reflect"
	"slices"

	"github.com/kausality-io/function-kausality/admission/change"
)

// Apply returns the desired state that Crossplane's server-side apply would leave of
// an observed resource: the observed fields, with those that the pipeline wants laid
// over them, and without those that it applied before, no longer wants, and that have
// no other owner (KR-09-02). owned is of the observed resource. No argument is
// modified; what does not change is shared with observed.
func Apply(observed, desired map[string]any, owned *Ownership) map[string]any {
	out, _ := mergeMaps(change.Desired(observed), change.Desired(desired), owned.composed, owned.others())
	if out == nil {
		out = map[string]any{}
	}
	return out
}

// mergeMaps returns an observed map (old) after the apply of a wanted one. own and oth are the fields
// that the pipeline and other managers own in it. Where nothing changes, the result is the old map.
func mergeMaps(old, want map[string]any, own, oth fieldSet) (out map[string]any, changed bool) {
	out = old
	if want != nil && reflect.ValueOf(old).Pointer() == reflect.ValueOf(want).Pointer() { // see ObjectLike
		return out, false
	}
	edit := func() {
		if !changed {
			out, changed = Clone(old), true
		}
	}
	for key, name := range own.fields() {
		o, is := old[name]
		if _, wanted := want[name]; wanted || !is {
			continue
		}
		edit()
		if rest, keep := prune(o, at{key, own, oth}); keep {
			out[name] = rest
		} else {
			delete(out, name)
		}
	}
	for k, w := range want {
		o, ok := old[k]
		differs := !ok
		if ok {
			w, differs = mergeValue(o, w, at{fieldKey(k), own, oth})
		}
		if differs {
			edit()
			out[k] = w
		}
	}
	return out, changed
}

// Clone returns a copy of a map, never nil.
func Clone[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return maps.Clone(m)
}

// at is a place in an object: its key in the sets of the level above, which may hold
// it or something below it.
type at struct {
	key      string
	own, oth fieldSet
}

func (p at) below() (own, oth fieldSet) { return p.own.below(p.key), p.oth.below(p.key) }

// mergeValue returns an observed value after the apply of a wanted one. changed is
// false only where the result is the observed value; an equal one may count as changed.
func mergeValue(old, want any, p at) (out any, changed bool) {
	switch w := want.(type) {
	case map[string]any:
		if o, ok := old.(map[string]any); ok {
			if atomicMap(o, w, p) {
				return w, true
			}
			own, oth := p.below()
			return mergeMaps(o, w, own, oth)
		}
	case []any:
		if o, ok := old.([]any); ok {
			own, oth := p.below()
			return mergeLists(o, w, own, oth)
		}
	default:
		return want, !Scalar(old) || old != want
	}
	return want, true
}

// Scalar reports whether a value has nothing below it.
func Scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// atomicMap reports whether a map is owned as a whole and no manager owns a field in
// it: an apply replaces it (x-kubernetes-map-type: atomic).
func atomicMap(old, want map[string]any, p at) bool {
	own, oth := p.below()
	if own != nil || len(old) == 0 || len(want) == 0 || reflect.DeepEqual(old, want) {
		return false
	}
	return oth == nil && (p.own.holds(p.key) || p.oth.holds(p.key))
}

// mergeLists merges two lists as mergeValue does. The type of a list is known by the keys of its
// owned items. Without any the list is atomic: then an equal one is kept, and another one replaced,
// unless other managers own items in it.
func mergeLists(old, want []any, own, oth fieldSet) (out []any, changed bool) {
	l := itemsOf(own, oth)
	l.listType = listTypeOf(l.mine)
	if l.atomic() {
		if slices.EqualFunc(old, want, equalJSON) {
			return want, false
		}
		if l.listType = listTypeOf(l.theirs); l.atomic() {
			return want, true
		}
	}
	return l.pruned(l.merged(old, want), want), true
}

// equalJSON compares values as encoding/json decodes them. Most are scalars, for which
// reflection is not needed.
func equalJSON(a, b any) bool {
	if Scalar(a) && Scalar(b) {
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// merged returns the items in the order of structured-merge-diff: that of the applied list, with
// items that only the old one has before the next one that both have.
func (l items) merged(old, want []any) []any {
	match := make([]int, len(want))
	shared := make([]bool, len(old))
	for i, w := range want {
		if match[i] = l.index(old, w); match[i] >= 0 {
			shared[match[i]] = true
		}
	}
	out := make([]any, 0, max(len(old), len(want)))
	for o, w := 0, 0; o < len(old) || w < len(want); {
		switch {
		case o < len(old) && w < len(want) && match[w] == o:
			out = append(out, l.mergeItem(old[o], want[w]))
			o, w = o+1, w+1
		case o < len(old) && !shared[o]:
			out = append(out, old[o])
			o++
		case o < len(old) && (w >= len(want) || next(match[w:]) != o):
			o++ // it is elsewhere in the applied list
		case match[w] >= 0:
			out = append(out, l.mergeItem(old[match[w]], want[w]))
			w++
		default:
			out = append(out, want[w])
			w++
		}
	}
	return out
}

// next returns the next index of an observed item that the rest of an applied list has; -1 where there
// is no such item.
func next(match []int) int {
	for _, i := range match {
		if i >= 0 {
			return i
		}
	}
	return -1
}

// mergeItem merges two items that are the same by their keys, as mergeValue does.
func (l items) mergeItem(old, want any) any {
	p := at{own: l.own, oth: l.oth}
	var ok bool
	if p.key, ok = l.find(l.mine, old); !ok {
		if p.key, ok = l.find(l.theirs, old); !ok {
			p = at{}
		}
	}
	out, _ := mergeValue(old, want, p)
	return out
}

// pruned returns a list without the items that the pipeline applied and no longer wants.
func (l items) pruned(merged, want []any) []any {
	out := make([]any, 0, len(merged))
	for _, e := range merged {
		key, mine := l.find(l.mine, e)
		if !mine || l.index(want, e) >= 0 {
			out = append(out, e)
			continue
		}
		if rest, keep := prune(e, at{key, l.own, l.oth}); keep {
			out = append(out, rest)
		}
	}
	return out
}
