package ssa

import (
	"maps"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// IsHonoured reports whether a Composition may set an annotation: those that are not
// Kausality's, and of Kausality's those that a Composition may set (KR-02-11).
func IsHonoured(key string) bool { return !v1alpha1.IsKausality(key) || v1alpha1.IsComposed(key) }

// Honoured returns those annotations that a Composition may set, of the wanted ones, in a map of its
// own.
func Honoured(wanted map[string]any) map[string]any {
	out := Clone(wanted)
	maps.DeleteFunc(out, func(k string, _ any) bool { return !IsHonoured(k) })
	return out
}

// Annotations returns the annotations that the apply leaves. Those of Kausality and of Crossplane stay
// as observed. Where nothing changes, the result is the observed map.
func Annotations(observed, wanted map[string]any, owned *Ownership) (out map[string]any, changed bool) {
	out = observed
	edit := func() {
		if !changed {
			out, changed = Clone(observed), true
		}
	}
	for _, name := range owned.composed.below(fieldKey("metadata")).below(fieldKey("annotations")).fields() {
		_, is := observed[name]
		if _, kept := wanted[name]; is && !kept && isApplied(name) {
			edit()
			delete(out, name)
		}
	}
	for k, v := range wanted {
		if was, is := observed[k]; isApplied(k) && !(is && equalJSON(was, v)) {
			edit()
			out[k] = v
		}
	}
	return out, changed
}

// isApplied reports whether an apply sets the value that a Composition has for an
// annotation. Crossplane sets its own for the one with the resource's name.
func isApplied(key string) bool {
	return IsHonoured(key) && key != v1alpha1.AnnotationKeyCompositionResourceName
}

// WithExternalName returns metadata with the external name that other metadata has. Neither is modified.
func WithExternalName(metadata, from map[string]any) map[string]any {
	out := maps.Clone(metadata)
	annotations := maps.Clone(Child(metadata, "annotations"))
	delete(annotations, v1alpha1.AnnotationKeyExternalName)
	if name := AnnotationOf(from, v1alpha1.AnnotationKeyExternalName); name != "" {
		annotations[v1alpha1.AnnotationKeyExternalName] = name
	}
	if out != nil {
		out["annotations"] = annotations
	}
	return out
}
