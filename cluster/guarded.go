package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// entry of the webhook configuration: which objects the API server sends to
// one webhook.
type entry struct {
	rules               []rule
	namespaces, objects labels.Selector
}

// entriesOf a webhook configuration, those about whole objects.
func entriesOf(o *unstructured.Unstructured) ([]entry, error) {
	hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("cannot read the webhook configuration: %w", err)
	}
	var out []entry
	for _, h := range hooks {
		m, _ := h.(map[string]any)
		e := entry{rules: rulesOf(&unstructured.Unstructured{Object: map[string]any{"webhooks": []any{m}}}, mains)}
		if len(e.rules) == 0 {
			continue
		}
		if e.namespaces, err = selectorOf(m["namespaceSelector"]); err != nil {
			return nil, fmt.Errorf("cannot read the namespaceSelector of a webhook: %w", err)
		}
		if e.objects, err = selectorOf(m["objectSelector"]); err != nil {
			return nil, fmt.Errorf("cannot read the objectSelector of a webhook: %w", err)
		}
		out = append(out, e)
	}
	return out, nil
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

// Guarded reports whether the API server sends an object to the webhook; where
// it does not, why is what excludes it, as a clause.
func (d *Direct) Guarded(ctx context.Context, resource schema.GroupResource, namespace string, own map[string]string) (is bool, why string, err error) {
	why = "its kind is not guarded"
	for _, e := range d.entries {
		if !covers(e.rules, resource) {
			continue
		}
		if namespace != "" {
			ns, err := d.namespace(ctx, namespace)
			if err != nil {
				return false, "", err
			}
			if !e.namespaces.Matches(labels.Set(ns.labels)) {
				why = "its namespace is not guarded"
				continue
			}
		}
		if e.objects.Matches(labels.Set(own)) {
			return true, "", nil
		}
		why = "its labels keep it out"
	}
	return false, why, nil
}
