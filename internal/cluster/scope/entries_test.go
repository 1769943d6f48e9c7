package scope

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Which objects the API server sends to the webhook, by kind, scope, Namespace and labels
// (KR-13-15).
func TestGuards(t *testing.T) {
	hook := func(scope string, more map[string]any) any {
		m := map[string]any{"rules": []any{map[string]any{"apiGroups": []any{"example.org"}, "resources": []any{"buckets", "buckets/scale"}, "scope": scope}}}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	labelled := func(kv string) map[string]any { return map[string]any{"matchLabels": map[string]any{kv: "yes"}} }
	labelsOf := func(namespace string) (map[string]string, error) {
		return map[string]map[string]string{"team": {"guard": "yes"}}[namespace], nil
	}
	in := map[string]string{"in": "yes"}
	cases := map[string]struct {
		hook      any
		resource  string
		namespace string
		labels    map[string]string
		blind     bool
		want      bool
		why       string
	}{
		"Kind":             {hook: hook("*", nil), namespace: "team", want: true},
		"OtherKind":        {hook: hook("*", nil), resource: "queues", namespace: "team", why: "its kind is not guarded"},
		"ClusterScoped":    {hook: hook("*", nil), want: true},
		"NamespacedOnly":   {hook: hook("Namespaced", nil), why: "it is cluster-scoped, and only objects in namespaces are guarded"},
		"Namespace":        {hook: hook("*", map[string]any{"namespaceSelector": labelled("guard")}), namespace: "team", want: true},
		"OtherNamespace":   {hook: hook("*", map[string]any{"namespaceSelector": labelled("guard")}), namespace: "x", why: "its namespace is not guarded"},
		"AnyNamespace":     {hook: hook("*", map[string]any{"namespaceSelector": labelled("guard")}), namespace: "x", blind: true, want: true},
		"Labels":           {hook: hook("*", map[string]any{"objectSelector": labelled("in")}), namespace: "team", labels: in, want: true},
		"OtherLabels":      {hook: hook("*", map[string]any{"objectSelector": labelled("in")}), namespace: "team", why: "its labels keep it out"},
		"UnreadableLabels": {hook: hook("*", map[string]any{"objectSelector": "x"}), namespace: "team", want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.resource == "" {
				tc.resource = "buckets"
			}
			of := labelsOf
			if tc.blind {
				of = nil
			}
			c := configurationOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{tc.hook}}})
			is, why, err := Guards(c.entries, schema.GroupResource{Group: "example.org", Resource: tc.resource}, tc.namespace, of, Labeled(tc.labels))
			if is != tc.want || why != tc.why || err != nil {
				t.Errorf("want %t, %q; got %t, %q, %v", tc.want, tc.why, is, why, err)
			}
		})
	}
	c := configurationOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{hook("*", nil)}}})
	selective := configurationOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{hook("*",
		map[string]any{"objectSelector": labelled("in"), "namespaceSelector": labelled("guard")})}}})
	for namespace, want := range map[string]bool{"team": true, "x": false} { // whatever the labels of an object are that cannot be read
		is, _, err := Guards(selective.entries, schema.GroupResource{Group: "example.org", Resource: "buckets"}, namespace, labelsOf, AnyLabels)
		if is != want || err != nil {
			t.Errorf("%s: an object of unknown labels: %t, %v", namespace, is, err)
		}
	}
	failing := func(string) (map[string]string, error) { return nil, errors.New("timeout") }
	if is, _, err := Guards(c.entries, schema.GroupResource{Group: "example.org", Resource: "buckets"}, "team", failing, Labeled(nil)); is || err == nil {
		t.Errorf("unreadable namespace: %t, %v", is, err)
	}
}
