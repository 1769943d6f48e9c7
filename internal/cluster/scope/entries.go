package scope

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Entry of the webhook configuration: which objects the API server sends to
// one webhook.
type Entry struct {
	rules               []rule
	namespaces, objects labels.Selector
	// namespaced: it is about no cluster-scoped objects.
	namespaced bool
	// Refuses what it is about while the webhook does not answer.
	Refuses bool
}

// entriesOf a webhook configuration, those about whole objects. The API server validated
// it; an entry with a selector that cannot be read is left out, and an error.
func entriesOf(o *unstructured.Unstructured) (out []Entry, failed error) {
	hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("cannot read the webhook configuration: %w", err)
	}
	for _, h := range hooks {
		m, _ := h.(map[string]any)
		e := Entry{rules: rulesOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{m}}}, mains)}
		if len(e.rules) == 0 {
			continue
		}
		if e.namespaces, err = selectorOf(m["namespaceSelector"]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot read the namespaceSelector of a webhook: %w", err))
			continue
		}
		if e.objects, err = selectorOf(m["objectSelector"]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot read the objectSelector of a webhook: %w", err))
			continue
		}
		e.namespaced, e.Refuses = namespacedOnly(m), m["failurePolicy"] != "Ignore" // the API server's default is Fail
		out = append(out, e)
	}
	return out, failed
}

// namespacedOnly reports whether the rules of a webhook are about no cluster-scoped objects.
func namespacedOnly(hook map[string]any) bool {
	rules, _ := hook["rules"].([]any)
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(e any) bool {
		r, _ := e.(map[string]any)
		return r["scope"] != "Namespaced"
	})
}

// selectorOf labels; one that is not given selects everything.
func selectorOf(v any) (labels.Selector, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return labels.Everything(), nil
	}
	s := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, s); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(s)
}

// Guards reports whether an object is sent to the webhook by one of the entries; where it
// is not, why. labelsOf a Namespace; nil leaves Namespaces out of it.
func Guards(entries []Entry, resource schema.GroupResource, namespace string,
	labelsOf func(namespace string) (map[string]string, error), selects func(Entry) bool,
) (is bool, why string, err error) {
	why = "its kind is not guarded"
	for _, e := range entries {
		if !Covers(e.rules, resource) {
			continue
		}
		if namespace == "" && e.namespaced {
			why = "it is cluster-scoped, and only objects in namespaces are guarded"
			continue
		}
		if namespace != "" && labelsOf != nil {
			of, err := labelsOf(namespace)
			if err != nil {
				return false, "", err
			}
			if !e.namespaces.Matches(labels.Set(of)) {
				why = "its namespace is not guarded"
				continue
			}
		}
		if selects(e) {
			return true, "", nil
		}
		why = "its labels keep it out"
	}
	return false, why, nil
}

// Labeled selects the entries that apply to objects with some labels.
func Labeled(own map[string]string) func(Entry) bool {
	return func(e Entry) bool { return e.objects.Matches(labels.Set(own)) }
}

// AnyLabels is for objects with unknown labels.
func AnyLabels(Entry) bool { return true }

// FailOpen returns the resources, as in databases.example.org, some or all of whose changes are allowed without a decision while
// the webhook does not answer; sorted, nil for none.
func (s *Scope) FailOpen() (out []string) {
	for _, e := range s.Entered() {
		if e.Refuses {
			continue
		}
		for _, r := range e.rules {
			for _, group := range r.groups {
				for _, resource := range r.resources {
					out = append(out, schema.GroupResource{Group: group, Resource: resource}.String())
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
