package carry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/verb"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Field below spec.forProvider that carries a cause. The zero Field is none.
type Field struct {
	// Name of the field; "" for none.
	Name string
	// Provenance is the setting by which Kausality writes to it.
	Provenance v1alpha1.Provenance

	// key and value are the names of an entry's fields; "" in a map.
	key, value string
}

// Entry of a field.
type Entry struct{ Name, Value string }

// Of returns the field of a managed resource that carries its cause, by its spec.forProvider as it is wanted and as it is stored; either may be nil.
// It is the zero Field where there is none: for tags, where neither has any, since a kind without tags would refuse them.
func Of(gk schema.GroupKind, wanted, stored map[string]any) Field {
	switch {
	case verb.IsWorkspace(gk):
		for _, of := range []map[string]any{wanted, stored} {
			if _, ok := of[fieldEnv].([]any); !ok && of[fieldEnv] != nil {
				return Field{}
			}
		}
		if wanted == nil && stored == nil {
			return Field{}
		}
		return Field{Name: fieldEnv, Provenance: v1alpha1.ProvenanceTerraformEnv, key: "name", value: "value"}
	case ofAWS(gk.Group):
		return tagsOf(wanted, stored)
	}
	return Field{}
}

const (
	fieldEnv  = "env"
	fieldTags = "tags"
)

// ofAWS reports whether a group is one of AWS: s3.aws.upbound.io, s3.aws.m.upbound.io, s3.aws.crossplane.io.
func ofAWS(group string) bool {
	return strings.Contains(group, ".aws.") || strings.HasPrefix(group, "aws.")
}

// tagsOf returns the field for tags: a map, or a list of {key, value}. An empty list does not show the form of its entries.
func tagsOf(forProviders ...map[string]any) Field {
	out := Field{}
	for _, p := range forProviders {
		f := Field{Name: fieldTags, Provenance: v1alpha1.ProvenanceAWSTags}
		switch tags := p[fieldTags].(type) {
		case nil:
			continue
		case map[string]any:
		case []any:
			if len(tags) == 0 {
				continue
			}
			f.key, f.value = "key", "value"
			if slices.ContainsFunc(tags, func(e any) bool { return f.nameOf(e) == "" }) {
				return Field{}
			}
		default:
			return Field{}
		}
		if out.Name != "" && out != f {
			return Field{}
		}
		out = f
	}
	return out
}

// ForProvider returns spec.forProvider of an object's content; nil where it is not set.
func ForProvider(content map[string]any) map[string]any {
	spec, _ := content["spec"].(map[string]any)
	out, _ := spec["forProvider"].(map[string]any)
	return out
}

// nameOf an item of a list; "" for what is no entry.
func (f Field) nameOf(item any) string {
	m, _ := item.(map[string]any)
	name, _ := m[f.key].(string)
	return name
}

// Taken returns the entries of Kausality in a value of the field, in their order.
func (f Field) Taken(value any) (out []Entry) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range tagNames {
			if text, ok := v[name].(string); ok {
				out = append(out, Entry{Name: name, Value: text})
			}
		}
	case []any:
		for _, item := range v {
			if name := f.nameOf(item); isOurs(name) {
				text, _ := item.(map[string]any)[f.value].(string)
				out = append(out, Entry{Name: name, Value: text})
			}
		}
	}
	return out
}

// Without returns a value of the field without the entries of Kausality; nil where no other is left. The value is not modified, and returned where
// it has none of them.
func (f Field) Without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
		if !slices.ContainsFunc(tagNames, func(name string) bool { _, ok := v[name]; return ok }) {
			return v
		}
		out := maps.Clone(v)
		for _, name := range tagNames {
			delete(out, name)
		}
		return f.Without(out)
	case []any:
		if len(v) == 0 {
			return nil
		}
		ours := func(item any) bool { return isOurs(f.nameOf(item)) }
		if !slices.ContainsFunc(v, ours) {
			return v
		}
		return f.Without(slices.DeleteFunc(slices.Clone(v), ours))
	}
	return value
}

// With returns a value of the field with exactly these entries of Kausality in it, at the end of a list; what others wrote stays as it is and where
// it is. Where a resource has no room for all of them, none is added, and an error is returned. The value is not modified. It is returned, or is
// empty, where nothing is left.
func (f Field) With(value any, ours []Entry) (any, error) {
	others := f.Without(value)
	var err error
	if n := lengthOf(others); f.Name == fieldTags && len(ours) > 0 && n+len(ours) > MaxTags {
		err, ours = fmt.Errorf("cannot add %d provenance tags to the %d that exist: AWS allows %d", len(ours), n, MaxTags), nil
	}
	if len(ours) == 0 {
		switch {
		case others != nil || value == nil:
			return others, err
		case f.key == "":
			return map[string]any{}, err
		}
		return []any{}, err
	}
	if f.key == "" {
		out := map[string]any{}
		if m, ok := others.(map[string]any); ok {
			maps.Copy(out, m)
		}
		for _, e := range ours {
			out[e.Name] = e.Value
		}
		return out, err
	}
	list, _ := others.([]any)
	out := slices.Clone(list)
	for _, e := range ours {
		out = append(out, map[string]any{f.key: e.Name, f.value: e.Value})
	}
	return out, err
}

func lengthOf(value any) int {
	switch v := value.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// Strip returns the content of an object without the entries of Kausality. It shares what is not on the way there, and is the content itself where
// there are none of them, nor an empty field.
func (f Field) Strip(content map[string]any) map[string]any {
	forProvider := ForProvider(content)
	value, ok := forProvider[f.Name]
	if !ok {
		return content
	}
	others := f.Without(value)
	if lengthOf(others) == lengthOf(value) && others != nil {
		return content
	}
	spec, _ := content["spec"].(map[string]any)
	content, spec, forProvider = maps.Clone(content), maps.Clone(spec), maps.Clone(forProvider)
	content["spec"], spec["forProvider"] = spec, forProvider
	if forProvider[f.Name] = others; others == nil {
		delete(forProvider, f.Name)
	}
	return content
}
