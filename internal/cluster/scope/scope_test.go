package scope

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is called when the set changed must find it changed, or a kind that comes
// under guard is never watched.
func TestScopeCallsAfterTheChange(t *testing.T) {
	s := &Scope{}
	covered := []bool{}
	s.OnChange(func() {
		covered = append(covered, s.Covers(schema.GroupResource{Group: "example.org", Resource: "buckets"}))
	})
	s.set(&configuration{rules: []rule{{groups: []string{"example.org"}, resources: []string{"*"}}}})
	s.set(&configuration{})
	if len(covered) != 2 || !covered[0] || covered[1] {
		t.Errorf("want calls with true, then false, got %v", covered)
	}
}

// What the policy controller keeps until it is restored is watched, although it
// is guarded no more: the configuration has its status reviewed alone.
func TestScopeWatchesWhatIsKept(t *testing.T) {
	rule := func(resources ...any) any {
		return map[string]any{"apiGroups": []any{"example.org"}, "resources": resources}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{
		map[string]any{"rules": []any{rule("buckets"), rule("buckets/scale")}}, map[string]any{"rules": []any{rule("buckets/status", "queues/status")}},
	}}}
	s := &Scope{}
	s.set(configurationOf(o))
	for resource, want := range map[string][2]bool{"buckets": {true, true}, "queues": {false, true}, "topics": {false, false}} {
		r := schema.GroupResource{Group: "example.org", Resource: resource}
		if got := [2]bool{s.Covers(r), s.Watches(r)}; got != want {
			t.Errorf("%s: guarded and watched are %v, want %v", resource, got, want)
		}
	}
	s.set(configurationOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{}}}))
	r := schema.GroupResource{Group: "example.org", Resource: "buckets"}
	if s.Covers(r) || !s.Watches(r) {
		t.Errorf("emptied: guarded and watched are %v and %v, want false and true", s.Covers(r), s.Watches(r))
	}
}
