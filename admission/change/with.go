package change

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// With returns a copy of an object with a difference that Fields made, for display (KR-10-18). ok is false where that is
// not possible, as where a value was cut short or the object has changed otherwise. The object is not modified.
func With(object map[string]any, difference []v1alpha1.FieldDifference) (out map[string]any, ok bool) {
	out = runtime.DeepCopyJSON(object)
	for _, d := range difference {
		path := SplitPath(d.Path)
		if len(path) == 0 || Text(path) != d.Path {
			return nil, false
		}
		var value any
		if d.Verb != string(Delete) {
			switch {
			case d.New == redacted:
				value = redacted
			case json.Unmarshal([]byte(d.New), &value) != nil:
				return nil, false
			}
		}
		if !set(out, path, value, d.Verb == string(Delete)) {
			return nil, false
		}
	}
	return out, true
}

// set sets a value at a path, or removes it. It returns false where that is not possible.
func set(in any, path []Segment, value any, remove bool) bool {
	at, last := path[0], len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		switch next, has := in[at.Key]; {
		case at.Item:
			return false
		case last && remove:
			delete(in, at.Key)
			return true
		case last:
			in[at.Key] = value
			return true
		case !has && remove:
			return true
		case !has:
			next = map[string]any{}
			in[at.Key] = next
			return set(next, path[1:], value, remove)
		default:
			return set(next, path[1:], value, remove)
		}
	case []any:
		if !at.Item || at.Index >= len(in) || last && remove {
			return false
		}
		if last {
			in[at.Index] = value
			return true
		}
		return set(in[at.Index], path[1:], value, remove)
	}
	return false
}
