package scope

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What is called about a removal finds that it began, or was cancelled; nothing is called
// where nothing turned.
func TestScopeReportsRemoval(t *testing.T) {
	s := &Scope{}
	var calls []bool
	s.OnRemoval(func() { calls = append(calls, s.Removing()) })
	for _, annotations := range []map[string]string{nil, {AnnotationKeyRemoval: "2026-01-05T09:30:00Z"},
		{AnnotationKeyRemoval: "2026-01-05T09:30:01Z"}, {"other": "x"}, nil} {
		o := &unstructured.Unstructured{}
		o.SetAnnotations(annotations)
		s.set(configurationOf(o))
	}
	if len(calls) != 2 || !calls[0] || calls[1] {
		t.Errorf("want calls with true, then false, got %v", calls)
	}
}
