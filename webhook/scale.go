package webhook

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/kausality-io/function-kausality/admission/identity"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// scaling makes a request about a Scale one about the object that is scaled: of
// that people and policies speak, and a Scale has neither parent nor
// annotations. It is read live, once: such requests are rare. gone reports that
// it does not exist, which the API server says by itself.
func (h *Handler) scaling(ctx context.Context, r *review) (gone bool, err error) {
	req := r.req
	info, err := h.Cluster.Kinds.OfResource(r.resource)
	if err != nil {
		return false, err
	}
	ref := parent.Ref{GroupVersionKind: info.GVK, Namespace: req.Namespace, Name: req.Name, UID: req.OldObject.GetUID()}
	content, err := h.Cluster.States.Content(ctx, ref)
	if err != nil {
		return false, fmt.Errorf("cannot read %s, which is scaled: %w", identity.Describe(ref), err)
	}
	if content == nil {
		return true, nil
	}
	if err := h.Cluster.States.Watch(info.GVK); err != nil { // the writer must see it land
		h.Log.Error(err, "cannot watch a kind that is scaled", "kind", info.GVK.String())
	}
	before := h.withPending(&unstructured.Unstructured{Object: content}, info.Role)
	return false, scaleTo(req, before, info)
}

// scaleTo puts the object that is scaled into a request about its Scale.
func scaleTo(req *admission.Request, before *unstructured.Unstructured, info cluster.Info) error {
	before.SetResourceVersion(req.OldObject.GetResourceVersion())
	after := before.DeepCopy()
	err := setReplicas(before, req.OldObject, info.ScalePath)
	if err == nil {
		err = setReplicas(after, req.Object, info.ScalePath)
	}
	if err != nil {
		return fmt.Errorf("cannot scale %s by its field %q: %w", info.GVK.Kind, info.ScalePath, err)
	}
	req.Kind, req.OldObject, req.Object = info.GVK, before, after
	return nil
}

// setReplicas of an object to those of a Scale. Where the object does not have the
// field the API server sends the lowest number there is (1.35), or none.
func setReplicas(o, scale *unstructured.Unstructured, path string) error {
	n, found, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil || !found || n < 0 {
		return err
	}
	return unstructured.SetNestedField(o.Object, n, strings.Split(path, ".")...)
}

// changesDesired reports whether an update changes the desired state. Another one
// must leave our annotations as they are stored: nobody could tell it from a
// forgery.
func changesDesired(req *admission.Request) bool {
	return !reflect.DeepEqual(change.Desired(req.OldObject.Object), change.Desired(req.Object.Object))
}

// withPending is an object with what a change through /scale left to be written
// to it; the object itself where there is nothing.
func (h *Handler) withPending(o *unstructured.Unstructured, role parent.Role) *unstructured.Unstructured {
	if !h.tracker.scales(o.GetUID()) {
		return o
	}
	s := parent.Sum(o, role)
	filled := h.tracker.scaled(s)
	if filled == s {
		return o
	}
	o = o.DeepCopy()
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	for _, k := range scaledKeys {
		if v, ok := filled.Annotations[k]; ok {
			all[k] = v
		} else {
			delete(all, k)
		}
	}
	o.SetAnnotations(all)
	return o
}

// scaledKeys are the annotations that a change through /scale leaves to be
// written.
var scaledKeys = []string{v1alpha1.AnnotationKeyTrace, v1alpha1.AnnotationKeyUpdaters, v1alpha1.AnnotationKeyAllowances}
