package change

import "strings"

// OnlySpecFields reports whether all changes are of some top-level fields of spec,
// or add or remove a spec that holds nothing but those.
func OnlySpecFields(changes []Change, fields map[string]bool) bool {
	for _, c := range changes {
		if c.Path == "spec" && onlyKeys(c.Old, fields) && onlyKeys(c.New, fields) {
			continue
		}
		rest, ok := strings.CutPrefix(c.Path, "spec.")
		if !ok || !fields[strings.FieldsFunc(rest, func(r rune) bool { return r == '.' || r == '[' })[0]] {
			return false
		}
	}
	return true
}

// onlyKeys reports whether a value is a map with no other keys, or nil.
func onlyKeys(value any, keys map[string]bool) bool {
	m, ok := value.(map[string]any)
	for k := range m {
		if !keys[k] {
			return false
		}
	}
	return ok || value == nil
}
