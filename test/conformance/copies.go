package conformance

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Copies of each kind that is copied. A policy targets a kind in the whole
// cluster, so scenarios with policies cannot share one. Each has its own copy
// while it runs; further scenarios wait.
const Copies = 8

// copiedAnnotation marks a CRD whose kind is copied.
const copiedAnnotation = "conformance.kausality.io/copied"

// free copies by their number.
func free() chan int {
	out := make(chan int, Copies)
	for i := range Copies {
		out <- i + 1
	}
	return out
}

// numbered kind of a copy.
func numbered(kind string, n int) string { return fmt.Sprintf("%s%d", kind, n) }

// copies of a CRD that is marked so; the CRD itself where it is not.
func copies(crd *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if crd.GetAnnotations()[copiedAnnotation] == "" {
		return []*unstructured.Unstructured{crd}, nil
	}
	plural, group, ok := strings.Cut(crd.GetName(), ".")
	if !ok {
		return nil, fmt.Errorf("%s is not the name of a CRD", crd.GetName())
	}
	kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, 0, Copies)
	for i := range Copies {
		c := crd.DeepCopy()
		c.SetName(numbered(plural, i+1) + "." + group)
		for field, value := range map[string]string{"kind": kind, "plural": plural} {
			if err := unstructured.SetNestedField(c.Object, numbered(value, i+1), "spec", "names", field); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}
