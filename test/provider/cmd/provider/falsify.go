package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// falsifications are ways to write statuses that are not true, by their names in --falsify.
var falsifications = map[string]func(*falsifier, *unstructured.Unstructured){
	"ahead": (*falsifier).ahead, "stale": (*falsifier).stale, "flapping": (*falsifier).flapping,
}

// falsifier writes the statuses of the managed resources in some Namespaces otherwise than its reconciler wants them. It is safe
// for concurrent use.
type falsifier struct {
	// how, by Namespace.
	how map[string]string

	mu    sync.Mutex
	first map[types.UID]any
	ready map[types.UID]bool
}

// parseFalsifications of --falsify: NAMESPACE=HOW, comma-separated.
func parseFalsifications(value string) (map[string]string, error) {
	out := map[string]string{}
	for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
		namespace, how, _ := strings.Cut(item, "=")
		if namespace == "" || falsifications[how] == nil {
			return nil, fmt.Errorf("--falsify must be like NAMESPACE=HOW, with one of %v, not %q", slices.Sorted(maps.Keys(falsifications)), item)
		}
		out[namespace] = how
	}
	return out, nil
}

// newClient for a manager.
func (l *falsifier) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, o)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{SubResourceUpdate: l.update}), nil
}

func (l *falsifier) update(ctx context.Context, c client.Client, subresource string, o client.Object, opts ...client.SubResourceUpdateOption) error {
	write := falsifications[l.how[o.GetNamespace()]]
	if write == nil || subresource != "status" {
		return c.SubResource(subresource).Update(ctx, o, opts...)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	gvk, err := c.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	write(l, u)
	if err := c.SubResource(subresource).Update(ctx, u, opts...); err != nil {
		return err
	}
	o.SetResourceVersion(u.GetResourceVersion())
	return nil
}

// ahead: the generation that it observed is one that the object does not have.
func (*falsifier) ahead(o *unstructured.Unstructured) {
	eachCondition(o, func(c map[string]any) { c["observedGeneration"] = o.GetGeneration() + 1000 })
}

// stale: the external state is always the first one that was complete.
func (l *falsifier) stale(o *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _, _ := unstructured.NestedMap(o.Object, "status", "atProvider")
	was, known := l.first[o.GetUID()]
	switch {
	case known:
		_ = unstructured.SetNestedField(o.Object, was, "status", "atProvider")
	case at["state"] == "available":
		l.first[o.GetUID()] = runtime.DeepCopyJSON(at)
	}
}

// flapping: of two writes one has Ready False.
func (l *falsifier) flapping(o *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ready := !l.ready[o.GetUID()]
	l.ready[o.GetUID()] = ready
	eachCondition(o, func(c map[string]any) {
		if c["type"] == "Ready" && !ready {
			c["status"], c["reason"] = "False", "Unavailable"
		}
	})
}

func eachCondition(o *unstructured.Unstructured, f func(map[string]any)) {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok {
			f(m)
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, list, "status", "conditions")
}
