package informer

import (
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// resync is off: a missed event is repaired by the next list, which the watch
// does by itself.
const resync = time.Duration(0)

// New watches a resource in all namespaces and keeps the summary of each
// object instead of the object. summarize returns a pointer to a struct that
// embeds objectMeta, or an *Object. name restricts the watch to objects of one
// name; "" is for all.
func New(client dynamic.Interface, resource schema.GroupVersionResource, name string,
	summarize func(*unstructured.Unstructured) any) cache.SharedIndexInformer {
	return NewIn(client, resource, metav1.NamespaceAll, name, summarize)
}

// NewIn is New for objects in one namespace.
func NewIn(client dynamic.Interface, resource schema.GroupVersionResource, namespace, name string,
	summarize func(*unstructured.Unstructured) any) cache.SharedIndexInformer {
	byName := func(o *metav1.ListOptions) {
		if name != "" {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, resync, cache.Indexers{}, byName).Informer()
	if err := informer.SetWatchErrorHandlerWithContext(WatchFailed); err != nil { // fails only once the informer runs
		panic(fmt.Sprintf("cannot set the error handler of a new informer: %v", err))
	}
	err := informer.SetTransform(func(o any) (any, error) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return o, nil // a summary already
		}
		return summaryOf(u, summarize), nil
	})
	if err != nil { // fails only once the informer runs
		panic(fmt.Sprintf("cannot set the transform of a new informer: %v", err))
	}
	return &syncedInformer{SharedIndexInformer: informer}
}

// syncedInformer remembers that an informer has synced, which it does once: each request needs it, and the answer of the informer itself waits
// for two locks.
type syncedInformer struct {
	cache.SharedIndexInformer
	synced atomic.Bool
}

// HasSynced reports whether the informer has all objects that there were when it began.
func (i *syncedInformer) HasSynced() bool {
	if !i.synced.Load() && i.SharedIndexInformer.HasSynced() {
		i.synced.Store(true)
	}
	return i.synced.Load()
}

// Meta is what a watch cache needs of an object: its key and its version.
type Meta struct{ ObjectMeta metav1.ObjectMeta }

// MetaOf an object, with its own copies: it must not keep the object alive.
func MetaOf(o *unstructured.Unstructured) Meta {
	return Meta{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}}
}

// GetObjectMeta makes summaries metav1.ObjectMetaAccessors.
func (i *Meta) GetObjectMeta() metav1.Object { return &i.ObjectMeta }

// Last returns the object of an event, and of a deletion its last known state, as a type; false where it is another one.
func Last[T any](o any) (T, bool) {
	if deleted, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = deleted.Obj
	}
	out, ok := o.(T)
	return out, ok
}

// Call all functions, in their order.
func Call(all []func()) {
	for _, f := range all {
		f()
	}
}
