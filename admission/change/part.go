package change

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Leaf is a place at which two versions of an object differ, and the value that one of them wants there (KR-05-55).
type Leaf struct {
	// Path as in Change.Path, except that an item of a list with merge keys has these in place of its index: they do not
	// change when another item is added or removed.
	Path string
	// Value is a digest of the wanted value: Removed where the field is to be removed, Hidden for a secret one.
	Value string
}

const (
	// Removed is the Value of a leaf whose field is wanted to be gone.
	Removed = "-"
	// Hidden is the Value of a leaf with a secret value: a digest of it would be a hash to test guesses by (KR-13-27).
	Hidden = "*"
	// valueLength is the number of hex digits of any other Value.
	valueLength = 16
)

// Comparison of two versions of an object, leaf by leaf.
type Comparison struct {
	// Lists of the kind; nil where no list has merge keys. A list without them is one leaf.
	Lists Lists
	// Unstored as in Diff.
	Unstored bool
	// Secrets are the fields with secret values, in addition to those of Secrets.
	Secrets SecretFields
}

// Leaves returns the leaves at which two versions of an object differ, sorted by path.
func (c Comparison) Leaves(old, new map[string]any) []Leaf {
	var out []Leaf
	c.Part(old, new, func(l Leaf) bool {
		out = append(out, l)
		return false
	})
	slices.SortFunc(out, func(a, b Leaf) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Part returns the new version of an object, with each leaf for which keep returns true as in the old one. Fields
// outside of the desired state are as in the new one. Where all leaves below a field are kept, or no leaf is, the
// field is that of one version, byte for byte. No argument is modified; the result shares values with both.
func (c Comparison) Part(old, new map[string]any, keep func(Leaf) bool) map[string]any {
	p := parter{differ: differ{unstored: c.Unstored}, lists: c.Lists, secrets: c.Secrets.patterns(), keep: keep}
	return p.objects(old, new)
}

// objects returns the Part of two versions of an object.
func (p *parter) objects(old, new map[string]any) map[string]any {
	out := maps.Clone(new)
	if out == nil {
		out = map[string]any{}
	}
	for _, k := range unionOf(old, new) {
		if outside[k] || shared(old[k], new[k]) {
			continue
		}
		at := place{path: Join("", k), at: []Segment{{Key: k}}, secret: hidden(k, old, new)}
		o, n := old[k], new[k]
		if v, kept, _ := p.value(at, o, n); kept && v == nil {
			delete(out, k)
		} else if kept {
			out[k] = v
		}
	}
	return out
}

// place of a value.
type place struct {
	// path of a Leaf, and at with the indices of the new version.
	path   string
	at     []Segment
	secret bool
}

// parter walks two versions of an object side by side. A nil value does not exist.
type parter struct {
	differ
	lists   Lists
	secrets []Pattern
	keep    func(Leaf) bool
}

// value merges the values at a place: kept reports whether leaves are as in the old version, passed whether others
// are as in the new one.
func (p *parter) value(at place, old, new any) (out any, kept, passed bool) {
	if om, nm, ok := mapsOf(old, new); ok {
		out, kept, passed = p.fields(at, om, nm, old, new)
		if kept || passed {
			return out, kept, passed
		}
	}
	if p.same(old, new) {
		return new, false, false
	}
	if ol, nl, ok := listsOf(old, new); ok && p.lists != nil {
		if t := p.lists.ListType(at.at); t.Set || len(t.Keys) > 0 {
			o, oldOK := identities(ol, t)
			n, newOK := identities(nl, t)
			if oldOK && newOK {
				l := keyed{old: ol, new: nl, oldID: o, newID: n}
				return p.items(at, l, old, new)
			}
		}
	}
	if p.keep(p.leaf(at, new)) {
		return old, true, false
	}
	return new, false, true
}

// leaf returns the leaf at a place that wants a value.
func (p *parter) leaf(at place, value any) Leaf {
	secret := at.secret
	for _, pattern := range p.secrets {
		secret = secret || pattern.Covers(at.at) || pattern.below(at.at)
	}
	if _, shows := show(value); secret || shows { // it is, or it contains, what is secret
		return Leaf{Path: at.path, Value: Hidden}
	}
	if value == nil {
		return Leaf{Path: at.path, Value: Removed}
	}
	sum := sha256.Sum256(canonical(value))
	return Leaf{Path: at.path, Value: hex.EncodeToString(sum[:])[:valueLength]}
}

// fields merges two maps field by field; a map that does not exist is nil.
func (p *parter) fields(at place, om, nm map[string]any, old, new any) (out any, kept, passed bool) {
	var merged map[string]any
	for _, k := range unionOf(om, nm) {
		if shared(om[k], nm[k]) {
			continue
		}
		below := place{path: Join(at.path, k), at: extend(at.at, Segment{Key: k}), secret: at.secret || hidden(k, om, nm)}
		v, keeps, passes := p.value(below, om[k], nm[k])
		kept, passed = kept || keeps, passed || passes
		if !keeps {
			continue
		}
		if merged == nil {
			if merged = maps.Clone(nm); merged == nil {
				merged = map[string]any{}
			}
		}
		if merged[k] = v; v == nil {
			delete(merged, k)
		}
	}
	return choose(merged, old, new, kept, passed)
}

// shared reports whether two values are the same string, or the same map.
func shared(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer()
	}
	return false
}

// keyed lists with the identities of their items.
type keyed struct {
	old, new     []any
	oldID, newID []string
}

// items merges two lists with merge keys. It returns the items of the new one in their order, then those that are
// kept of the old one.
func (p *parter) items(at place, l keyed, old, new any) (out any, kept, passed bool) {
	merged := make([]any, 0, len(l.new))
	item := func(id string, index int, o, n any) {
		below := place{path: at.path + "[" + id + "]", at: extend(at.at, Segment{Index: index, Item: true}), secret: at.secret}
		v, keeps, passes := p.value(below, o, n)
		kept, passed = kept || keeps, passed || passes
		if v != nil {
			merged = append(merged, v)
		}
	}
	was := make(map[string]any, len(l.old))
	for i, id := range l.oldID {
		was[id] = l.old[i]
	}
	for i, id := range l.newID {
		item(id, i, was[id], l.new[i])
		delete(was, id)
	}
	for i, id := range l.oldID {
		if o, gone := was[id]; gone {
			item(id, i, o, nil)
		}
	}
	return choose(merged, old, new, kept, passed)
}

// choose returns one of the two versions where all leaves are of it, and the merged value otherwise.
func choose(merged, old, new any, kept, passed bool) (any, bool, bool) {
	switch {
	case !kept:
		return new, kept, passed
	case !passed:
		return old, kept, passed
	}
	return merged, kept, passed
}

// same reports whether two values are equal as Diff compares them.
func (p *parter) same(a, b any) bool {
	if p.absent(a) && p.absent(b) {
		return true
	}
	switch a.(type) {
	case map[string]any, []any:
		d := differ{unstored: p.unstored}
		d.values(a, b)
		return len(d.out) == 0
	}
	return p.equal(a, b)
}

// mapsOf returns two values as maps, of which one may not exist; false where a value has another type, or both are
// without fields.
func mapsOf(old, new any) (o, n map[string]any, ok bool) {
	o, oldOK := old.(map[string]any)
	n, newOK := new.(map[string]any)
	return o, n, (oldOK || old == nil) && (newOK || new == nil) && len(o)+len(n) > 0
}

// listsOf returns two values as lists, of which one may not exist; false where a value has another type.
func listsOf(old, new any) (o, n []any, ok bool) {
	o, oldOK := old.([]any)
	n, newOK := new.([]any)
	return o, n, (oldOK || old == nil) && (newOK || new == nil)
}

// unionOf returns the keys of two maps, sorted.
func unionOf(a, b map[string]any) []string {
	keys := slices.AppendSeq(make([]string, 0, len(a)+len(b)), maps.Keys(a))
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// hidden reports whether a field holds secret values of a Secret.
func hidden(field string, old, new map[string]any) bool {
	return IsSecretField(old, field) || IsSecretField(new, field)
}
