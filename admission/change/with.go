package change

import (
	"encoding/json"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// With returns a copy of an object with a difference that Fields made, for display (KR-10-18). ok is false where that is
// not possible, as where a value was cut short or the object has changed otherwise. The object is not modified.
func With(object map[string]any, difference []v1alpha1.FieldDifference) (out map[string]any, ok bool) {
	out = runtime.DeepCopyJSON(object)
	for _, d := range difference {
		path := keysOf(d.Path)
		if len(path) == 0 {
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

// keysOf returns the keys of a path as Text writes it; nil for a path with a bracket that is not closed.
func keysOf(text string) (out []string) {
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "["); ok {
			key, after, closed := strings.Cut(rest, "]")
			if !closed {
				return nil
			}
			out, text = append(out, key), strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(text, ".[")
		if end < 0 {
			return append(out, text)
		}
		out, text = append(out, text[:end]), strings.TrimPrefix(text[end:], ".")
	}
	return out
}

// set sets a value at a path, or removes it. It returns false where that is not possible.
func set(in any, path []string, value any, remove bool) bool {
	last := len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		switch next, has := in[path[0]]; {
		case last && remove:
			delete(in, path[0])
			return true
		case last:
			in[path[0]] = value
			return true
		case !has && remove:
			return true
		case !has:
			next = map[string]any{}
			in[path[0]] = next
			return set(next, path[1:], value, remove)
		default:
			return set(next, path[1:], value, remove)
		}
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(in) || last && remove {
			return false
		}
		if last {
			in[i] = value
			return true
		}
		return set(in[i], path[1:], value, remove)
	}
	return false
}
