package change

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Verb is a kind of change of one field.
type Verb string

const (
	// Insert adds a field or an item that did not exist.
	Insert Verb = "Insert"
	// Delete removes a field or an item.
	Delete Verb = "Delete"
	// Mutate changes the value of a field.
	Mutate Verb = "Mutate"
)

// Change of one field.
type Change struct {
	// Path as in spec.template.spec.containers[0].image; keys that are no plain
	// names are in brackets.
	Path string
	Verb Verb
	// Old and New values as JSON types; nil where the field does not exist.
	Old, New any
	// Secret: the values are those of a Secret, or of one of SecretFields. Fields and ID replace them, and those of
	// Secrets within values.
	Secret bool
}

// outside of the desired state.
var outside = map[string]bool{"apiVersion": true, "kind": true, "metadata": true, "status": true}

// Desired returns the desired state of an object: a shallow copy of content
// without apiVersion, kind, metadata and status. nil stays nil (KR-01-01).
func Desired(content map[string]any) map[string]any {
	out := maps.Clone(content)
	maps.DeleteFunc(out, func(key string, _ any) bool { return outside[key] })
	return out
}

// Diff returns the changes that lead from the desired state of one object to that of
// another, sorted by path. Maps are compared key by key, lists index by index if
// they have the same length and as one value otherwise. nil is an object that does
// not exist, and compares as empty. A null is a field that does not exist; an empty
// map or list is one that does: an empty selector selects everything. unstored: one
// side was not stored by the API server, or was written by a client that leaves out
// what is empty; an empty map or list is no change against a missing field then.
func Diff(old, new map[string]any, unstored bool) []Change {
	return differ{unstored: unstored, objects: true}.changes(old, new)
}

// Same reports whether two values are equal as Diff compares them with unstored set.
func Same(a, b any) bool {
	return reflect.DeepEqual(a, b) || len(differ{unstored: true}.changes(map[string]any{"v": a}, map[string]any{"v": b})) == 0
}

// changes returns the changes between two states, sorted by path.
func (d differ) changes(old, new map[string]any) []Change {
	d.at = make([]Segment, 0, 8)
	d.maps(old, new)
	out := d.out
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// differ walks two states side by side. The text of the path is made only where a
// change is found: most fields of most requests do not change.
type differ struct {
	at  []Segment
	out []Change
	// unstored: empty maps and lists count as absent.
	unstored bool
	// objects are compared: what is outside of their desired state is left out.
	objects bool
	// detail is nil for Diff.
	detail *detail
}

// Text returns the text of a path, as in Change.Path.
func Text(path []Segment) string {
	out := make([]byte, 0, 64) // as long as most paths are
	for _, s := range path {
		if s.Item {
			out = append(strconv.AppendInt(append(out, '['), int64(s.Index), 10), ']')
		} else {
			out = join(out, s.Key)
		}
	}
	return string(out)
}

// found records a change at the current place.
func (d *differ) found(v Verb, old, new any) {
	c := Change{Path: Text(d.at), Verb: v, Old: old, New: new}
	if d.detail != nil {
		d.detail.out = append(d.detail.out, Detail{Change: c, At: slices.Clone(d.at)})
		return
	}
	if n := len(d.out); n == cap(d.out) {
		d.out = slices.Grow(d.out, max(4, 3*n)) // there are few changes or many
	}
	d.out = append(d.out, c)
}

// maps compares two maps key by key. The last segment of the path is reused for all
// keys: most of them do not change.
func (d *differ) maps(old, new map[string]any) {
	d.at = append(d.at, Segment{})
	top := len(d.at) - 1
	for k, o := range old {
		if d.isOutside(k) {
			continue
		}
		d.at[top].Key = k
		before := len(d.out)
		if n, ok := new[k]; ok {
			d.values(o, n)
		} else if !d.absent(o) {
			d.found(Delete, o, nil)
		}
		d.markSecret(k, old, new, before)
	}
	for k, n := range new {
		if _, ok := old[k]; !ok && !d.absent(n) && !d.isOutside(k) {
			d.at[top].Key = k
			d.found(Insert, nil, n)
			d.markSecret(k, old, new, len(d.out)-1)
		}
	}
	d.at = d.at[:top]
}

// markSecret marks the changes from the given one on as secret, where they are in a field of two objects that holds
// values of Secrets (KR-13-01). Details are not shown.
func (d *differ) markSecret(field string, old, new map[string]any, from int) {
	if d.detail != nil || len(d.out) <= from || !IsSecretField(old, field) && !IsSecretField(new, field) {
		return
	}
	for i := from; i < len(d.out); i++ {
		d.out[i].Secret = true
	}
}

// isOutside reports whether a key at the current place is outside of the desired
// state.
func (d *differ) isOutside(key string) bool { return d.objects && len(d.at) == 1 && outside[key] }

// lists compares two lists of the same length by index.
func (d *differ) lists(old, new []any) {
	d.at = append(d.at, Segment{Item: true})
	top := len(d.at) - 1
	for i := range old {
		d.at[top].Index = i
		d.values(old[i], new[i])
	}
	d.at = d.at[:top]
}

// values compares two values of any type. Maps and lists are compared field by
// field where both sides have one.
func (d *differ) values(old, new any) {
	switch o := old.(type) {
	case map[string]any:
		if n, ok := new.(map[string]any); ok {
			if reflect.ValueOf(o).Pointer() != reflect.ValueOf(n).Pointer() { // who reads both may share what is the same
				d.maps(o, n)
			}
			return
		}
	case []any:
		n, ok := new.([]any)
		if ok && d.detail != nil {
			d.items(o, n)
			return
		}
		if ok && len(n) == len(o) {
			d.lists(o, n)
			return
		}
	}
	if !d.equal(old, new) {
		d.found(Mutate, old, new)
	}
}

// absent reports whether a value makes no change against a field that does not exist.
func (d *differ) absent(v any) bool {
	switch t := v.(type) {
	case nil:
		return true
	case map[string]any:
		return d.unstored && len(t) == 0
	case []any:
		return d.unstored && len(t) == 0
	}
	return false
}

// equal compares two scalars, or values of different types.
func (d *differ) equal(a, b any) bool {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		return ok && x == y
	}
	if d.absent(a) && d.absent(b) {
		return true
	}
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return x == y // not by way of float64, which holds 53 bits
		}
	}
	if x, ok := Number(a); ok {
		if y, ok := Number(b); ok {
			return x == y
		}
	}
	return reflect.DeepEqual(a, b)
}

// Number returns a number as a float64, so that 3 and 3.0 are equal: JSON decoders disagree on them.
func Number(v any) (float64, bool) {
	switch t := v.(type) {
	case int64:
		return float64(t), true
	case int:
		return float64(t), true
	case float64:
		return t, true
	}
	return 0, false
}

// Join appends a map key to a path.
func Join(path, key string) string {
	return string(join([]byte(path), key))
}

// join appends a key to the text of a path.
func join(path []byte, key string) []byte {
	if !plain(key) {
		return append(append(append(path, '['), key...), ']')
	}
	if len(path) > 0 {
		path = append(path, '.')
	}
	return append(path, key...)
}

// plain reports whether a key needs no brackets in a path.
func plain(key string) bool {
	return key != "" && !strings.ContainsAny(key, ".[]/ \t\"'*")
}

// Paths returns the paths of changes, in their order.
func Paths(changes []Change) []string {
	out := make([]string, 0, len(changes))
	for _, c := range changes {
		out = append(out, c.Path)
	}
	return out
}

// Under reports whether a path is prefix itself or below it.
func Under(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Summary lists the paths for messages, at most max of them.
func Summary(changes []Change, max int) string { return First(Paths(changes), max) }

// First returns the first of some texts, max at most, in one line, and how many more there are.
func First(texts []string, max int) string {
	out := strings.Join(texts[:min(len(texts), max)], ", ")
	if more := len(texts) - max; more > 0 {
		out += " and " + strconv.Itoa(more) + " more"
	}
	return out
}

// canonical returns the canonical JSON of a value: with sorted keys, as encoding/json writes it.
func canonical(v any) json.RawMessage { return appendCanonical(nil, v) }
