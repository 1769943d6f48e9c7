package story

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// history is every version that objects of a resource had, in order: what
// happened in one write cannot be recognized from the state afterwards.
type history struct {
	mu       sync.Mutex
	versions []*unstructured.Unstructured
	stop     func()
}

// Watch a resource from now on.
func (e *Env) watch(ctx context.Context, r schema.GroupVersionResource) (*history, error) {
	list, err := e.admin.Resource(r).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	w, err := e.admin.Resource(r).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, err
	}
	h := &history{stop: w.Stop}
	go func() {
		for ev := range w.ResultChan() {
			if o, ok := ev.Object.(*unstructured.Unstructured); ok && ev.Type != watch.Deleted && ev.Type != watch.Error {
				h.mu.Lock()
				h.versions = append(h.versions, o)
				h.mu.Unlock()
			}
		}
	}()
	return h, nil
}

// first version for which f holds.
func (h *history) first(what string, f func(*unstructured.Unstructured) bool) (*unstructured.Unstructured, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.versions {
		if f(v) {
			return v, nil
		}
	}
	return nil, fmt.Errorf("no version of %d %s", len(h.versions), what)
}

// count versions at which f turned from false to true.
func (h *history) turns(f func(*unstructured.Unstructured) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, was := 0, false
	for _, v := range h.versions {
		is := f(v)
		if is && !was {
			n++
		}
		was = is
	}
	return n
}
