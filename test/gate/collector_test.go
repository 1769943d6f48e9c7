package gate

import (
	"context"
	"errors"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
)

// awaitCollector until the garbage collector knows our kinds, which it discovers
// twice a minute: an object whose owner does not exist is deleted.
func (l *environment) awaitCollector(ctx context.Context) error {
	c, err := dynamic.NewForConfig(l.Config())
	if err != nil {
		return err
	}
	r := c.Resource(plains).Namespace("default")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "other.example.org/v1", "kind": "Plain", "metadata": map[string]any{"name": "left",
		"ownerReferences": []any{map[string]any{"apiVersion": "example.org/v1", "kind": "XStore", "name": "none", "uid": "00000000-0000-0000-0000-000000000000"}}}}}
	if _, err := r.Create(ctx, o, metav1.CreateOptions{}); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "the garbage collector to know our kinds", 2*time.Minute, func(ctx context.Context) error {
		_, err := r.Get(ctx, "left", metav1.GetOptions{})
		return still(err)
	})
}

// still is the error for an object that should be gone; err is that of reading it.
func still(err error) error {
	switch {
	case kerrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return errors.New("it still exists")
}
