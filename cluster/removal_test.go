package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Who is told of a removal finds that it began, or was given up; nobody is told
// where nothing turned.
func TestScopeTellsOfRemoval(t *testing.T) {
	s := &Scope{}
	var told []bool
	s.OnRemoval(func() { told = append(told, s.Removing()) })
	for _, annotations := range []map[string]string{nil, {AnnotationKeyRemoval: "2026-01-05T09:30:00Z"},
		{AnnotationKeyRemoval: "2026-01-05T09:30:01Z"}, {"other": "x"}, nil} {
		o := &unstructured.Unstructured{}
		o.SetAnnotations(annotations)
		s.set(configurationOf(o))
	}
	if len(told) != 2 || !told[0] || told[1] {
		t.Errorf("want to be told true, then false, got %v", told)
	}
}
