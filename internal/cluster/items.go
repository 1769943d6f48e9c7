package cluster

import (
	"context"
	"fmt"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/parent"
)

// PageSize of lists, in objects. Objects of most kinds have a few KiB.
const PageSize = 500

// searchTimeout bounds one page of a search.
const searchTimeout = 5 * time.Second

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

// ResourceOf is the client of a resource, in a namespace where it is namespaced.
func ResourceOf(c dynamic.Interface, r schema.GroupVersionResource, namespaced bool, namespace string) dynamic.ResourceInterface {
	if namespaced {
		return c.Resource(r).Namespace(namespace)
	}
	return c.Resource(r)
}

// maxPages bounds a search, in pages.
const maxPages = 40

// Find the object of a ref's kind and namespace for which is reports true, by its metadata, live. The name is ""
// where there is none; complete is false where there are too many objects to search them all.
func (c *Cluster) Find(ctx context.Context, ref parent.Ref, is func(metav1.Object) bool) (name string, complete bool, err error) {
	info, err := c.Kinds.Get(ref.GroupVersionKind)
	if err != nil {
		return "", false, err
	}
	namespace := ref.Namespace
	if !info.Namespaced {
		namespace = ""
	}
	for page, next := 0, ""; page < maxPages; page++ {
		ctx, cancel := context.WithTimeout(ctx, searchTimeout)
		list, err := c.Metadata.Resource(info.GVR).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: PageSize, Continue: next})
		cancel()
		if err != nil {
			return "", false, fmt.Errorf("cannot list %s: %w", info.GVR.GroupResource(), err)
		}
		for i := range list.Items {
			if is(&list.Items[i]) {
				return list.Items[i].Name, true, nil
			}
		}
		if next = list.GetContinue(); next == "" {
			return "", true, nil
		}
	}
	return "", false, nil
}
