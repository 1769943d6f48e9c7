package fn

import (
	"maps"
	"reflect"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kausality-io/function-kausality/admission/change"
)

// apply returns the desired state that Crossplane's server-side apply would
// make of an observed resource: what the pipeline wants laid over what is
// there, without what the pipeline applied before and no longer wants, as far
// as nobody else owns it. Neither argument is modified; unchanged parts are
// shared.
//
// It knows no schema: defaults that the API server puts back for removed
// fields are not seen.
func apply(observed, desired map[string]any, owned *ownership) map[string]any {
	old, want := change.Desired(observed), change.Desired(desired)
	return mergeMaps(old, want, owned.composed, owned.others())
}

// mergeMaps of what is there and what is wanted, by what the pipeline and what
// others own of it; nil is nothing.
func mergeMaps(old, want map[string]any, own, oth *fieldpath.Set) map[string]any {
	out := maps.Clone(old)
	if out == nil {
		out = make(map[string]any, len(want))
	}
	for pe := range elements(own) {
		if pe.FieldName == nil {
			continue
		}
		o, is := old[*pe.FieldName]
		if _, wanted := want[*pe.FieldName]; wanted || !is {
			continue
		}
		if rest, keep := prune(o, at{pe, own, oth}); keep {
			out[*pe.FieldName] = rest
		} else {
			delete(out, *pe.FieldName)
		}
	}
	for k, w := range want {
		o, ok := old[k]
		if !ok || scalar(w) {
			out[k] = w
			continue
		}
		out[k] = mergeValue(o, w, at{fieldpath.FieldNameElement(k), own, oth})
	}
	return out
}

// at is a place in an object, with the sets of the level above.
type at struct {
	pe       fieldpath.PathElement
	own, oth *fieldpath.Set
}

func (p at) below() (own, oth *fieldpath.Set) { return below(p.own, p.pe), below(p.oth, p.pe) }

func mergeValue(old, want any, p at) any {
	switch w := want.(type) {
	case map[string]any:
		if o, ok := old.(map[string]any); ok {
			if atomicMap(o, w, p) {
				return w
			}
			own, oth := p.below()
			return mergeMaps(o, w, own, oth)
		}
	case []any:
		if o, ok := old.([]any); ok {
			own, oth := p.below()
			return mergeLists(o, w, own, oth)
		}
	}
	return want
}

// scalar: a value with nothing below it.
func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// atomicMap: it is owned as a whole, and nobody owns anything in it.
func atomicMap(old, want map[string]any, p at) bool {
	own, oth := p.below()
	if own != nil || len(old) == 0 || len(want) == 0 || reflect.DeepEqual(old, want) {
		return false
	}
	return oth == nil && (holds(p.own, p.pe) || holds(p.oth, p.pe))
}

func mergeLists(old, want []any, own, oth *fieldpath.Set) []any {
	t := listTypeOf(own)
	if t.atomic() {
		if reflect.DeepEqual(old, want) {
			return want
		}
		if t = listTypeOf(oth); t.atomic() {
			return want
		}
	}
	return prunedItems(t, mergedItems(t, old, want, own, oth), want, own, oth)
}

// mergedItems in the order of structured-merge-diff: that of the applied list,
// with items that only the old one has before the next one that both have.
func mergedItems(t listType, old, want []any, own, oth *fieldpath.Set) []any {
	match := make([]int, len(want))
	shared := make([]bool, len(old))
	for i, w := range want {
		if match[i] = t.index(old, w); match[i] >= 0 {
			shared[match[i]] = true
		}
	}
	out := make([]any, 0, max(len(old), len(want)))
	for l, r := 0, 0; l < len(old) || r < len(want); {
		switch {
		case l < len(old) && r < len(want) && match[r] == l:
			out = append(out, mergeItem(t, old[l], want[r], own, oth))
			l, r = l+1, r+1
		case l < len(old) && !shared[l]:
			out = append(out, old[l])
			l++
		case l < len(old) && (r >= len(want) || next(match[r:]) != l):
			l++ // stands elsewhere in the applied list
		case match[r] >= 0:
			out = append(out, mergeItem(t, old[match[r]], want[r], own, oth))
			r++
		default:
			out = append(out, want[r])
			r++
		}
	}
	return out
}

func next(match []int) int {
	for _, i := range match {
		if i >= 0 {
			return i
		}
	}
	return -1
}

func mergeItem(t listType, old, want any, own, oth *fieldpath.Set) any {
	pe, ok := t.find(own, old)
	if !ok {
		if pe, ok = t.find(oth, old); !ok {
			return mergeValue(old, want, at{})
		}
	}
	return mergeValue(old, want, at{pe, own, oth})
}

// prunedItems drops the items that the pipeline applied and no longer wants.
func prunedItems(t listType, merged, want []any, own, oth *fieldpath.Set) []any {
	out := make([]any, 0, len(merged))
	for _, e := range merged {
		pe, mine := t.find(own, e)
		if !mine || t.index(want, e) >= 0 {
			out = append(out, e)
			continue
		}
		if rest, keep := prune(e, at{pe, own, oth}); keep {
			out = append(out, rest)
		}
	}
	return out
}
