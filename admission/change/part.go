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
		if out == nil {
			out = make([]Leaf, 0, 16) // as many as most updates change
		}
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
	for _, k := range p.differing(old, new) {
		if outside[k] {
			continue
		}
		if v, kept, _ := p.field(k, false, old, new); kept && v == nil {
			delete(out, k)
		} else if kept {
			out[k] = v
		}
	}
	return out
}

// parter walks two versions of an object side by side. A nil value does not exist.
type parter struct {
	differ
	lists   Lists
	secrets []Pattern
	keep    func(Leaf) bool

	// place of the values that are compared, with the indices of the new version, and the path of a Leaf there.
	place []Segment
	path  []byte
	// names are those of differing, for all maps down to the place.
	names []string
	// json is room for the value of a leaf.
	json []byte
}

// field merges the values of a field, as value does.
func (p *parter) field(name string, secret bool, old, new map[string]any) (out any, kept, passed bool) {
	return p.below(Segment{Key: name}, join(p.path, name), secret || hidden(name, old, new), old[name], new[name])
}

// below merges the values at a place below, as value does.
func (p *parter) below(s Segment, path []byte, secret bool, old, new any) (out any, kept, passed bool) {
	depth, length := len(p.place), len(p.path)
	p.place, p.path = append(p.place, s), path
	out, kept, passed = p.value(secret, old, new)
	p.place, p.path = p.place[:depth], p.path[:length]
	return out, kept, passed
}

// value merges the values at the place: kept reports whether leaves are as in the old version, passed whether others
// are as in the new one.
func (p *parter) value(secret bool, old, new any) (out any, kept, passed bool) {
	if om, nm, ok := mapsOf(old, new); ok {
		out, kept, passed = p.fields(secret, om, nm, old, new)
		if kept || passed {
			return out, kept, passed
		}
	}
	if p.same(old, new) {
		return new, false, false
	}
	if ol, nl, ok := listsOf(old, new); ok && p.lists != nil {
		if t := p.lists.ListType(p.place); t.Set || len(t.Keys) > 0 {
			o, oldOK := identities(ol, t)
			n, newOK := identities(nl, t)
			if oldOK && newOK {
				return p.items(secret, keyed{old: ol, new: nl, oldID: o, newID: n}, old, new)
			}
		}
	}
	if p.keep(p.leaf(secret, new)) {
		return old, true, false
	}
	return new, false, true
}

// leaf returns the leaf at the place that wants a value.
func (p *parter) leaf(secret bool, value any) Leaf {
	path := string(p.path)
	for _, pattern := range p.secrets {
		secret = secret || pattern.Covers(p.place) || pattern.below(p.place)
	}
	if _, shows := show(value); secret || shows { // it is, or it contains, what is secret
		return Leaf{Path: path, Value: Hidden}
	}
	if value == nil {
		return Leaf{Path: path, Value: Removed}
	}
	p.json = appendCanonical(p.json[:0], value)
	sum := sha256.Sum256(p.json)
	var digits [valueLength]byte
	hex.Encode(digits[:], sum[:valueLength/2])
	return Leaf{Path: path, Value: string(digits[:])}
}

// fields merges two maps field by field; a map that does not exist is nil.
func (p *parter) fields(secret bool, om, nm map[string]any, old, new any) (out any, kept, passed bool) {
	var merged map[string]any
	before := len(p.names)
	for _, k := range p.differing(om, nm) {
		v, keeps, passes := p.field(k, secret, om, nm)
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
	p.names = p.names[:before]
	return choose(merged, old, new, kept, passed)
}

// differing returns the names of the fields that two maps do not share, sorted.
func (p *parter) differing(old, new map[string]any) []string {
	before := len(p.names)
	for k, o := range old {
		if n, ok := new[k]; !ok || !shared(o, n) {
			p.names = append(p.names, k)
		}
	}
	for k := range new {
		if _, ok := old[k]; !ok {
			p.names = append(p.names, k)
		}
	}
	names := p.names[before:]
	slices.Sort(names)
	return names
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
func (p *parter) items(secret bool, l keyed, old, new any) (out any, kept, passed bool) {
	merged := make([]any, 0, len(l.new))
	item := func(id string, index int, o, n any) {
		path := append(append(append(p.path, '['), id...), ']')
		v, keeps, passes := p.below(Segment{Index: index, Item: true}, path, secret, o, n)
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

// hidden reports whether a field holds secret values of a Secret.
func hidden(field string, old, new map[string]any) bool {
	return IsSecretField(old, field) || IsSecretField(new, field)
}
