package fn

import (
	"maps"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// isHonoured reports whether a Composition may set an annotation: what is not
// ours, and of ours what arrives by the composed apply (spec 2, "Protection").
func isHonoured(key string) bool {
	return !v1alpha1.IsKausality(key) || key == v1alpha1.AnnotationKeyMode || key == v1alpha1.AnnotationKeyDeletion ||
		strings.HasPrefix(key, v1alpha1.AnnotationKeyTraceLabelPrefix)
}

// honoured annotations of those a Composition wants, in a map of its own.
func honoured(wanted map[string]any) map[string]any {
	out := make(map[string]any, len(wanted)+1)
	for k, v := range wanted {
		if isHonoured(k) {
			out[k] = v
		}
	}
	return out
}

// appliedAnnotations are those that the apply leaves, ours untouched.
func appliedAnnotations(observed, wanted map[string]any, owned *ownership) map[string]any {
	out := maps.Clone(observed)
	if out == nil {
		out = map[string]any{}
	}
	for _, name := range owned.composed.below(fieldKey("metadata")).below(fieldKey("annotations")).fields() {
		if isHonoured(name) {
			delete(out, name)
		}
	}
	for k, v := range wanted {
		if isHonoured(k) {
			out[k] = v
		}
	}
	return out
}
