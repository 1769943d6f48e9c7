package informer

import (
	"context"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// PageSize of lists, in objects. Objects of most kinds have a few KiB.
const PageSize = 500

// Items of a resource, which are read a page of size objects at a time. An error of
// the API server is the last item, as it is, without an object.
func Items(ctx context.Context, r dynamic.ResourceInterface, size int64) iter.Seq2[*unstructured.Unstructured, error] {
	return Labelled(ctx, r, "", size)
}

// Labelled items of a resource, as Items: those that a label selector matches; empty matches all.
func Labelled(ctx context.Context, r dynamic.ResourceInterface, selector string, size int64) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		for next := ""; ; {
			list, err := r.List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: size, Continue: next})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range list.Items {
				if !yield(&list.Items[i], nil) {
					return
				}
			}
			if next = list.GetContinue(); next == "" {
				return
			}
		}
	}
}

// ResourceOf returns the client of a resource, in a namespace where it is namespaced.
func ResourceOf(c dynamic.Interface, r schema.GroupVersionResource, namespaced bool, namespace string) dynamic.ResourceInterface {
	if namespaced {
		return c.Resource(r).Namespace(namespace)
	}
	return c.Resource(r)
}
