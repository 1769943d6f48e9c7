package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Who is told that the set changed must find it changed, or a kind that comes
// under guard is never watched.
func TestScopeTellsAfterTheChange(t *testing.T) {
	s := &Scope{}
	covered := []bool{}
	s.OnChange(func() {
		covered = append(covered, s.Covers(schema.GroupResource{Group: "example.org", Resource: "buckets"}))
	})
	s.set(&configuration{rules: []rule{{groups: []string{"example.org"}, resources: []string{"*"}}}})
	s.set(&configuration{})
	if len(covered) != 2 || !covered[0] || covered[1] {
		t.Errorf("want to be told true, then false, got %v", covered)
	}
}
