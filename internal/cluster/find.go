package cluster

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// searchTimeout bounds one page of a search.
const searchTimeout = 5 * time.Second

// maxPages bounds a search, in pages.
const maxPages = 40

// Find the object of a ref's kind and namespace for which is reports true, by its metadata, live. The name is ""
// if no object is found; complete is false if there are too many objects to search them all.
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
		list, err := c.Metadata.Resource(info.GVR).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: informer.PageSize, Continue: next})
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
