package decider

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster/kinds"
)

// scaling rewrites a request for /scale into one of the scaled object, which is what policies and
// annotations refer to (KR-01-09). The object is read live: such requests are rare. gone reports that it
// does not exist, which the API server answers by itself.
func (dr *Decider) scaling(ctx context.Context, in Incoming) (gone bool, err error) {
	req := in.Request
	info, err := dr.Cluster.Kinds.OfResource(in.Resource)
	if err != nil {
		return false, err
	}
	ref := parent.Ref{GroupVersionKind: info.GVK, Namespace: req.Namespace, Name: req.Name, UID: req.OldObject.GetUID()}
	content, err := dr.Cluster.States.Content(ctx, ref)
	if err != nil {
		return false, fmt.Errorf("cannot read the scaled %s: %w", identity.Describe(ref), err)
	}
	if content == nil {
		return true, nil
	}
	if err := dr.Cluster.States.Watch(info.GVK); err != nil { // the settler must see it stored
		dr.Log.Error(err, "cannot watch a scaled kind", "kind", info.GVK.String())
	}
	before := dr.Memory.FillObject(&unstructured.Unstructured{Object: content}, info.Role)
	return false, scaleTo(req, before, info)
}

// scaleTo replaces the Scale of a request by the scaled object, before and after.
func scaleTo(req *admission.Request, before *unstructured.Unstructured, info kinds.Info) error {
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

// setReplicas of an object to those of a Scale. If the object lacks the field, the API server sends the
// lowest int32 (1.35), or none.
func setReplicas(o, scale *unstructured.Unstructured, path string) error {
	n, found, err := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	if err != nil || !found || n < 0 {
		return err
	}
	return unstructured.SetNestedField(o.Object, n, strings.Split(path, ".")...)
}

// changesDesired reports whether an update changes the desired state. One that does not must leave our
// annotations as they are stored, or it would be taken for a forgery of them (KR-02-09).
func changesDesired(req *admission.Request) bool {
	return !reflect.DeepEqual(change.Desired(req.OldObject.Object), change.Desired(req.Object.Object))
}
