package change

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// redacted is shown, and part of ids, in place of a value that is secret.
const redacted = "<redacted>"

// secretManifest finds a manifest of a Secret in a string: YAML or JSON, also JSON within JSON.
var secretManifest = regexp.MustCompile(`kind\\*["']?\s*:\s*\\*["']?Secret(List)?\b`)

// SecretFields are the paths of fields with secret values, a pattern per line; empty where no field is declared
// (KR-13-26). The values of Secrets are secret without it. It is a string, so that kinds that have it can be
// compared.
type SecretFields string

// SecretFieldsOf returns the SecretFields with these patterns. Those that do not parse are left out.
func SecretFieldsOf(paths ...string) SecretFields {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		_, err := ParsePattern(p)
		return err != nil || strings.Contains(p, "\n")
	})
	slices.Sort(paths)
	return SecretFields(strings.Join(slices.Compact(paths), "\n"))
}

// And returns the union of these fields and others.
func (f SecretFields) And(other SecretFields) SecretFields {
	switch {
	case other == "" || f == other:
		return f
	case f == "":
		return other
	}
	return SecretFieldsOf(append(strings.Split(string(f), "\n"), strings.Split(string(other), "\n")...)...)
}

// patterns returns the patterns of the fields. A desired field of an external resource is secret where the provider
// reports it, too.
func (f SecretFields) patterns() []Pattern {
	if f == "" {
		return nil
	}
	var out []Pattern
	for text := range strings.SplitSeq(string(f), "\n") {
		for _, t := range withObserved(text) {
			if p, err := ParsePattern(t); err == nil { // SecretFieldsOf leaves out the others
				out = append(out, p)
			}
		}
	}
	return out
}

// withObserved returns a path, and the one at which a provider reports the same field.
func withObserved(path string) []string {
	for _, desired := range []string{"spec.forProvider", "spec.initProvider"} {
		if Under(path, desired) {
			return []string{path, "status.atProvider" + path[len(desired):]}
		}
	}
	return []string{path}
}

// Redact replaces the values of the fields in changes. The argument is not modified.
func (f SecretFields) Redact(changes []Change) []Change {
	patterns := f.patterns()
	if len(patterns) == 0 || len(changes) == 0 {
		return changes
	}
	changes = slices.Clone(changes)
	for i := range changes {
		c := &changes[i]
		at := SplitPath(c.Path)
		for _, p := range patterns {
			if p.Covers(at) {
				c.Secret = true
			} else if p.below(at) {
				below := p.segments[len(at):]
				c.Old, c.New = redactAt(c.Old, below), redactAt(c.New, below)
			}
		}
	}
	return changes
}

// RedactFields replaces the values in a report that are those of these fields, or may hold one: a value is text in a
// report, which may be cut. The argument is not modified.
func (f SecretFields) RedactFields(fields []v1alpha1.FieldDifference) []v1alpha1.FieldDifference {
	patterns := f.patterns()
	fields = slices.Clone(fields)
	for i := range fields {
		at := SplitPath(fields[i].Path)
		if !slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Covers(at) || p.below(at) }) {
			continue
		}
		for _, v := range []*string{&fields[i].Old, &fields[i].New} {
			if *v != "" {
				*v = redacted
			}
		}
	}
	return fields
}

// RedactObject returns the content of an object with its secret values replaced, those of the fields and those of
// Secrets; the same content where it has none. The argument is not modified.
func (f SecretFields) RedactObject(content map[string]any) map[string]any {
	patterns := f.patterns()
	var out any = content
	for _, p := range patterns {
		out = redactAt(out, p.segments)
	}
	out, changed := show(out)
	if !changed && len(patterns) == 0 {
		return content
	}
	shown, _ := out.(map[string]any)
	metadata, _ := shown["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[corev1.LastAppliedConfigAnnotation] != nil {
		annotations, metadata, shown = maps.Clone(annotations), maps.Clone(metadata), maps.Clone(shown)
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		metadata["annotations"], shown["metadata"] = annotations, metadata
	}
	return shown
}

// redactAt replaces the values that a pattern leads to below a value, in a copy.
func redactAt(value any, pattern []patternSegment) any {
	if len(pattern) == 0 {
		return hide(value)
	}
	return rebuilt(value, func(at Segment, inner any) any {
		if pattern[0].is(at) {
			return redactAt(inner, pattern[1:])
		}
		return inner
	})
}

// rebuilt returns a map or list with each of its values replaced; it returns any other value as it is.
func rebuilt(value any, with func(Segment, any) any) any {
	switch v := value.(type) {
	case map[string]any:
		if v == nil {
			return value
		}
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[k] = with(Segment{Key: k}, inner)
		}
		return out
	case []any:
		if v == nil {
			return value
		}
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = with(Segment{Index: i, Item: true}, inner)
		}
		return out
	}
	return value
}

// hide replaces a value, or all values below a map or list; names of fields are shown.
func hide(value any) any {
	switch value.(type) {
	case nil:
		return nil
	case map[string]any, []any:
		return rebuilt(value, func(_ Segment, inner any) any { return hide(inner) })
	}
	return redacted
}

// show replaces the values of Secrets within a value: in manifests, lists of them, and texts that have one. It
// returns the same value where it has no values of Secrets.
func show(value any) (shown any, changed bool) {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "Secret") && secretManifest.MatchString(v) {
			return redacted, true
		}
	case map[string]any:
		return showMap(v, isSecret(v))
	case []any:
		return showList(v, false)
	}
	return value, false
}

// showMap replaces the values of Secrets within an object; secret is true where the object is a Secret itself.
func showMap(m map[string]any, secret bool) (any, bool) {
	out := m
	changed := false
	for k, inner := range m {
		var shown any
		var differs bool
		items, isList := inner.([]any)
		switch {
		case k == corev1.LastAppliedConfigAnnotation, secret && isSecretData(k):
			shown, differs = hide(inner), inner != nil
		case isList && k == "items" && m["kind"] == "SecretList":
			shown, differs = showList(items, true)
		default:
			shown, differs = show(inner)
		}
		if !differs {
			continue
		}
		if !changed {
			out, changed = maps.Clone(m), true
		}
		out[k] = shown
	}
	return out, changed
}

// showList replaces the values of Secrets within a list; secrets is true where all items are Secrets, which may lack
// their kind.
func showList(list []any, secrets bool) (any, bool) {
	out := list
	changed := false
	for i, item := range list {
		shown, differs := show(item)
		if m, ok := item.(map[string]any); ok && secrets {
			shown, differs = showMap(m, true)
		}
		if !differs {
			continue
		}
		if !changed {
			out, changed = slices.Clone(list), true
		}
		out[i] = shown
	}
	return out, changed
}

// isSecret reports whether a JSON object is a Secret, or a manifest of one within another object.
func isSecret(m map[string]any) bool {
	return m["kind"] == "Secret" && (m["apiVersion"] == "v1" || m["apiVersion"] == nil)
}

// isSecretData reports whether a field of a Secret holds its values.
func isSecretData(field string) bool { return field == "data" || field == "stringData" }

// IsSecretField reports whether a field of a JSON object has values of Secrets, so that no difference at or below it
// is shown. It has where the object is a Secret, or a SecretList with items that may lack their kind, or where the
// field is the annotation with kubectl's copy.
func IsSecretField(m map[string]any, field string) bool {
	return isSecretData(field) && isSecret(m) || field == "items" && m["kind"] == "SecretList" || field == corev1.LastAppliedConfigAnnotation
}

// SchemaSecrets returns the fields that the openAPIV3Schema of a CRD declares as format: password.
func SchemaSecrets(schema map[string]any) SecretFields {
	var found []string
	passwords(schema, nil, maxSchemaDepth, &found)
	return SecretFieldsOf(found...)
}

// passwords adds the fields of a schema at a path that are declared as format: password.
func passwords(schema map[string]any, at []Segment, depth int, found *[]string) {
	if schema == nil || depth == 0 {
		return
	}
	if schema["format"] == "password" && len(at) > 0 {
		*found = append(*found, Text(at))
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		inner, _ := p.(map[string]any)
		passwords(inner, extend(at, Segment{Key: name}), depth-1, found)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		inner, _ := schema[key].(map[string]any)
		passwords(inner, extend(at, Segment{Key: Any}), depth-1, found)
	}
}
