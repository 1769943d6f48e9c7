package apiserver

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	core "github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/decider"
)

// request that is decided about.
type request struct {
	decider.Incoming
	// live is the content of the object that the server has, where it is unstructured; nil where it is not. What is decided about is a copy:
	// reports and records have it after the request, while the server goes on to change its own.
	live map[string]any
	// typed is the object in the version of the request; nil where it is unstructured.
	typed runtime.Object
}

// content of the object that the request leaves, in which it is edited.
func (r *request) content() map[string]any {
	if r.live != nil {
		return r.live
	}
	return r.Object.Object
}

// incoming reads a request: its objects in the version that it has them in, its field manager and its options.
func incoming(a admission.Attributes, o admission.ObjectInterfaces) (*request, error) {
	out := &request{}
	req := &core.Request{
		Operation: core.Operation(a.GetOperation()), Kind: a.GetKind(), Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
		Time: clock.Now(), DryRun: a.IsDryRun(), User: userOf(a.GetUserInfo()),
	}
	out.Incoming = decider.Incoming{Request: req, Resource: a.GetResource(), Since: time.Now()}
	var err error
	if a.GetOperation() != admission.Create {
		if req.OldObject, _, _, err = contentOf(a.GetOldObject(), a.GetKind(), o); err != nil {
			return nil, err
		}
		if req.OldObject == nil {
			return nil, errNoObject
		}
	}
	if a.GetOperation() != admission.Delete {
		if req.Object, out.live, out.typed, err = contentOf(a.GetObject(), a.GetKind(), o); err != nil {
			return nil, err
		}
		if req.Object == nil {
			return nil, errNoObject
		}
	}
	switch options := a.GetOperationOptions().(type) {
	case *metav1.CreateOptions:
		req.FieldManager = options.FieldManager
	case *metav1.UpdateOptions:
		req.FieldManager = options.FieldManager
	case *metav1.PatchOptions:
		req.FieldManager = options.FieldManager
	case *metav1.DeleteOptions:
		old := options.OrphanDependents != nil && *options.OrphanDependents //nolint:staticcheck // Clients still use it.
		req.Orphans = old || options.PropagationPolicy != nil && *options.PropagationPolicy == metav1.DeletePropagationOrphan
	}
	return out, nil
}

// contentOf an object in a version: a copy, with the content of the object itself where it is unstructured, or its typed form in that version. All
// are nil for nil.
func contentOf(object runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (u *unstructured.Unstructured, live map[string]any,
	typed runtime.Object, err error) {
	if object == nil {
		return nil, nil, nil, nil
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		if has := u.GroupVersionKind(); has != kind {
			return nil, nil, nil, fmt.Errorf("the object is %s, not %s", has, kind)
		}
		return u.DeepCopy(), u.Object, nil, nil
	}
	versioned := object
	if kinds, _, err := o.GetObjectTyper().ObjectKinds(object); err != nil || !slices.Contains(kinds, kind) { // else the version is the internal one, too
		if versioned, err = admission.ConvertToGVK(object, kind, o); err != nil {
			return nil, nil, nil, fmt.Errorf("cannot convert the object to %s: %w", kind, err)
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot read the object as %s: %w", kind, err)
	}
	u = &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, nil, versioned, nil
}

// userOf a request.
func userOf(info user.Info) subject.User {
	if info == nil {
		return subject.User{}
	}
	return subject.User{Name: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups(), Extra: info.GetExtra()}
}
