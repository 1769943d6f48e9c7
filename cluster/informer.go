package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// newInformer watches a resource and keeps what sum makes of each object. What
// sum returns must embed identity.
func newInformer(r dynamic.ResourceInterface, sum func(*unstructured.Unstructured) any) cache.SharedIndexInformer {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return r.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return r.Watch(ctx, o)
		},
	}
	informer := cache.NewSharedIndexInformer(lw, &unstructured.Unstructured{}, resync, cache.Indexers{})
	if err := informer.SetWatchErrorHandlerWithContext(WatchFailed); err != nil { // only after the informer started
		panic(fmt.Sprintf("cannot set the error handler of a new informer: %v", err))
	}
	err := informer.SetTransform(func(o any) (any, error) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return o, nil // summed up already
		}
		return sum(u), nil
	})
	if err != nil { // only after the informer started
		panic(fmt.Sprintf("cannot set the transform of a new informer: %v", err))
	}
	return informer
}

// objectMeta makes a summary an object in the eyes of a watch cache.
type objectMeta struct{ m metav1.ObjectMeta }

func metaOf(o *unstructured.Unstructured) objectMeta {
	return objectMeta{m: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}}
}

// GetObjectMeta is what a watch cache asks for.
func (i *objectMeta) GetObjectMeta() metav1.Object { return &i.m }
