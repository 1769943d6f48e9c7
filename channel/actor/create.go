package actor

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Create creates an object. Nothing is changed if it exists already with the same spec. If another object has its name, or may not be read, that is a
// RefusedError.
func (a *Actor) Create(ctx context.Context, o *unstructured.Unstructured) error {
	c, err := a.resource(v1alpha1.ObjectReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace()})
	if err != nil {
		return err
	}
	_, err = c.Create(ctx, o, metav1.CreateOptions{FieldManager: a.manager})
	if !kerrors.IsAlreadyExists(err) {
		return err
	}
	have, read := c.Get(ctx, o.GetName(), metav1.GetOptions{})
	switch {
	case kerrors.IsForbidden(read):
		return &RefusedError{fmt.Errorf("%s %s exists already, and you may not read it: %w", o.GetKind(), o.GetName(), read)}
	case read != nil:
		return read
	case !equality.Semantic.DeepEqual(have.Object["spec"], o.Object["spec"]):
		return &RefusedError{fmt.Errorf("another %s has the name %s", o.GetKind(), o.GetName())}
	}
	return nil
}

// Scoped reports whether a change is about an object in a Namespace, or of a kind that has none: without one, an exception is for the whole cluster.
func Scoped(mapper meta.RESTMapper, d *v1alpha1.Drift) bool {
	gvk := schema.FromAPIVersionAndKind(d.Spec.Child.APIVersion, d.Spec.Child.Kind)
	m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err == nil && (m.Scope.Name() == meta.RESTScopeNameRoot) == (d.Spec.Child.Namespace == "")
}
