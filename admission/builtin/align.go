package builtin

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/change"
)

// Manager of an object, as far as it makes a difference.
type Manager string

const (
	// Replaces lists as a whole, as a merge patch does: an item that it does not
	// write was added by another.
	Replaces Manager = "Replaces"
	// Shares lists whose items have a key, as server-side apply does: items that it
	// does not write are not its.
	Shares Manager = "Shares"
)

// Align returns a manifest (want) in the form in which the API server returns it if it stores it unchanged; have is
// what the API server returns. Values that have contains in another form are in that form. Values that the API server
// does not store are left out: fields that the kind does not have, zero values where these mean that the field is not
// set, stringData, status. Where the two differ, the manifest's value stays. ok is false for a kind that is not built
// in: of that, metadata alone is aligned. Nothing is modified; the result shares equal values.
func Align(want, have map[string]any, m Manager) (out map[string]any, ok bool) {
	a := aligner{kind: kindOf(want), manager: m}
	t := typeOf(want)
	if t == nil {
		out = maps.Clone(want)
		if metadata, ok := written(want); ok {
			observed, _ := have["metadata"].(map[string]any) // nil where there is none
			out["metadata"] = a.object(reflect.TypeFor[metav1.ObjectMeta](), metadata, observed)
		}
		return out, false
	}
	return a.object(t, a.prepared(want, have), have), true
}

type aligner struct {
	kind    string
	manager Manager
}

func kindOf(manifest map[string]any) string {
	kind, _ := manifest["kind"].(string) // it has a type
	return kind
}

// value returns a value of a type in the form in which it is stored.
func (a aligner) value(f field, want, have any) any {
	t := f.typ
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if same, ok := equals[t]; ok {
		return either(same, want, have)
	}
	switch w := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any) // nil where there is none
		if t.Kind() == reflect.Struct && !opaque(t) {
			return a.object(t, w, h)
		} else if t.Kind() == reflect.Map {
			return a.entries(t, w, h)
		}
	case []any:
		h, _ := have.([]any) // nil where there is none
		if t.Kind() == reflect.Slice {
			return a.list(field{typ: t.Elem(), key: f.key}, w, h)
		}
	}
	return either(sameNumber, want, have)
}

// either returns have where the two are the same, and want otherwise.
func either(same func(a, b any) bool, want, have any) any {
	if same(want, have) {
		return have
	}
	return want
}

// object returns an object, with a struct as its Go type, in the form in which it is stored.
func (a aligner) object(t reflect.Type, want, have map[string]any) map[string]any {
	fields := fieldsOf(t)
	out := make(map[string]any, len(want))
	for k, w := range want {
		h, has := have[k]
		f, known := fields[k]
		switch {
		case w == nil, !known && !has:
			continue
		case !known:
			out[k] = either(sameNumber, w, h)
			continue
		}
		v := a.value(f, w, h)
		switch unset := !f.pointer && zero(v); {
		case unset && has && defaulted[k]:
			out[k] = h
		case !unset || has:
			out[k] = v
		}
	}
	return out
}

// entries returns the entries of a map in the form in which they are stored.
func (a aligner) entries(t reflect.Type, want, have map[string]any) map[string]any {
	out := make(map[string]any, len(want))
	for k, w := range want {
		switch {
		case w == nil:
		case t == resourceList:
			out[k] = either(sameResource, w, have[k])
		default:
			out[k] = a.value(field{typ: t.Elem()}, w, have[k])
		}
	}
	return out
}

// list returns the items of a list in the form in which they are stored. They are in the order of want, or in that of
// have where its manager shares the list.
func (a aligner) list(f field, want, have []any) []any {
	if a.kind == "Node" && f.key == "" {
		f.key = "key" // of taints, which controllers add in any order
	}
	out := make([]any, len(want))
	partner := make([]int, len(want))
	taken := make([]bool, len(have))
	for i, w := range want {
		partner[i] = partnerOf(w, have, taken, i, f.key)
		var h any
		if partner[i] >= 0 {
			h, taken[partner[i]] = have[partner[i]], true
		}
		out[i] = a.value(field{typ: f.typ}, w, h)
	}
	if !a.shares(f.key) {
		return out
	}
	shared := append([]any(nil), have...)
	for i, v := range out {
		if partner[i] < 0 {
			shared = append(shared, v)
		} else {
			shared[partner[i]] = v
		}
	}
	return shared
}

// partnerOf returns the index of the partner of an item in a list: the first free item with the same key or, where
// items have no key, the one at the same place; -1 where the item has no partner.
func partnerOf(item any, have []any, taken []bool, i int, key string) int {
	w, _ := item.(map[string]any) // a scalar has no key
	id, keyed := w[key]
	if key == "" || !keyed {
		if i < len(have) && !taken[i] {
			return i
		}
		return -1
	}
	for n := range have {
		at := (n + i) % len(have) // mostly at the same place
		h, _ := have[at].(map[string]any)
		if other, ok := h[key]; ok && !taken[at] && (sameNumber(id, other) || isText(id) && id == other) {
			return at
		}
	}
	return -1
}

func isText(v any) bool { _, ok := v.(string); return ok }

// shares reports whether others may add items to a list. Admission adds some to a Pod when it is created, and
// no user can later; controllers taint Nodes.
func (a aligner) shares(key string) bool {
	return a.kind == "Pod" || a.kind == "Node" || key != "" && (a.manager == Shares || a.kind == "ServiceAccount")
}

// zero reports whether a value is that of a field that is not set.
func zero(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(t) == 0
	case []any:
		return len(t) == 0
	case string:
		return t == ""
	case bool:
		return !t
	}
	n, ok := change.Number(v)
	return ok && n == 0
}
