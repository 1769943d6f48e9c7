package identity

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotation returns the value of an annotation of an object; "" where it is not set. It avoids the copy
// of all annotations that GetAnnotations makes.
func Annotation(o *unstructured.Unstructured, key string) string {
	value, _ := annotations(o)[key].(string)
	return value
}

// SameAnnotations reports whether two objects have equal annotations.
func SameAnnotations(a, b *unstructured.Unstructured) bool {
	return maps.EqualFunc(annotations(a), annotations(b), func(x, y any) bool {
		s, ok := x.(string)
		t, is := y.(string)
		return ok && is && s == t
	})
}

func annotations(o *unstructured.Unstructured) map[string]any {
	meta, _ := o.Object["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	return all
}

// IsDeleting reports whether an object has a deletionTimestamp.
func IsDeleting(o *unstructured.Unstructured) bool {
	meta, _ := o.Object["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil && o.GetDeletionTimestamp() != nil // which allocates where there is none
}
