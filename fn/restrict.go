package fn

import (
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// restrict an observed resource to what the pipeline composed before: applying
// that changes nothing. Where managedFields do not tell, shape does: the paths
// of what the pipeline wants now. A nil shape stands for all of the desired
// state. The result has apiVersion, kind and, where there are any, labels and
// annotations; it shares its parts with observed.
func restrict(observed, shape map[string]any, owned *ownership) map[string]any {
	out := map[string]any{"apiVersion": observed["apiVersion"], "kind": observed["kind"]}
	for k, v := range observed {
		switch k {
		case "apiVersion", "kind", "metadata", "status":
			continue
		}
		pe := fieldpath.FieldNameElement(k)
		switch {
		case owned.composed != nil:
			if !holds(owned.composed, pe) && below(owned.composed, pe) == nil {
				continue
			}
			out[k] = extract(v, below(owned.composed, pe))
		case shape == nil:
			out[k] = withoutMachinery(k, v)
		default:
			if w, ok := shape[k]; ok {
				out[k] = like(v, w)
			}
		}
	}
	if meta := restrictMetadata(observed, shape, owned); len(meta) > 0 {
		out["metadata"] = meta
	}
	return out
}

// crossplanes are the keys of labels and annotations that Crossplane adds to
// what the pipeline wants.
var crossplanes = map[string]bool{
	"crossplane.io/composite": true, "crossplane.io/claim-name": true, "crossplane.io/claim-namespace": true,
	v1alpha1.AnnotationKeyCompositionResourceName: true,
}

func restrictMetadata(observed, shape map[string]any, owned *ownership) map[string]any {
	out := map[string]any{}
	metadata := below(owned.composed, fieldpath.FieldNameElement("metadata"))
	for _, field := range []string{"labels", "annotations"} {
		mine := below(metadata, fieldpath.FieldNameElement(field))
		kept := map[string]any{}
		for k, v := range child(child(observed, "metadata"), field) {
			_, wanted := child(child(shape, "metadata"), field)[k]
			if owned.composed != nil {
				wanted = holds(mine, fieldpath.FieldNameElement(k))
			}
			if wanted && !crossplanes[k] {
				kept[k] = v
			}
		}
		if len(kept) > 0 {
			out[field] = kept
		}
	}
	return out
}

// extract what a set holds of a value; nil is the value as a whole.
func extract(v any, set *fieldpath.Set) any {
	if set == nil {
		return v
	}
	switch t := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for pe := range elements(set) {
			if pe.FieldName == nil {
				continue
			}
			if e, ok := t[*pe.FieldName]; ok {
				out[*pe.FieldName] = extract(e, below(set, pe))
			}
		}
		return out
	case []any:
		return extractItems(t, set)
	}
	return v
}

func extractItems(list []any, set *fieldpath.Set) []any {
	t := listTypeOf(set)
	if t.atomic() {
		return list
	}
	out := make([]any, 0, len(list))
	for _, e := range list {
		if pe, ok := t.find(set, e); ok {
			out = append(out, extract(e, below(set, pe)))
		}
	}
	return out
}

// like restricts a value to the paths of another; lists are one.
func like(v, shape any) any {
	m, ok := v.(map[string]any)
	s, sok := shape.(map[string]any)
	if !ok || !sok || len(s) == 0 {
		return v
	}
	out := make(map[string]any, len(s))
	for k, w := range s {
		if e, ok := m[k]; ok {
			out[k] = like(e, w)
		}
	}
	return out
}

// withoutMachinery leaves out of a nested composite's spec what Crossplane
// writes there.
func withoutMachinery(key string, v any) any {
	spec, ok := v.(map[string]any)
	if key != "spec" || !ok {
		return v
	}
	_, modern := spec["crossplane"]
	machinery := parent.Machinery(roleOf(spec), modern)
	if machinery == nil {
		return v
	}
	out := make(map[string]any, len(spec))
	for k, e := range spec {
		if !machinery[k] {
			out[k] = e
		}
	}
	return out
}
