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
	"github.com/kausality-io/function-kausality/internal/decider"
)

// request that is decided about.
type request struct {
	// Incoming has the server's own objects where these are unstructured. The server changes them after the decision, and nothing that is kept
	// of a decision refers to them.
	decider.Incoming
	// typed is the object in the version of the request; nil where it is unstructured.
	typed runtime.Object
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
		if req.OldObject, _, err = contentOf(a.GetOldObject(), a.GetKind(), o); err != nil {
			return nil, err
		}
		if req.OldObject == nil {
			return nil, errNoObject
		}
	}
	if a.GetOperation() != admission.Delete {
		if req.Object, out.typed, err = contentOf(a.GetObject(), a.GetKind(), o); err != nil {
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

// contentOf an object in a version: itself where it is unstructured, else also its typed form in that version. Both are nil for nil.
func contentOf(object runtime.Object, kind schema.GroupVersionKind, o admission.ObjectInterfaces) (u *unstructured.Unstructured, typed runtime.Object,
	err error) {
	if object == nil {
		return nil, nil, nil
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		if has := u.GroupVersionKind(); has != kind {
			return nil, nil, fmt.Errorf("the object is %s, not %s", has, kind)
		}
		return u, nil, nil
	}
	versioned := object
	if kinds, _, err := o.GetObjectTyper().ObjectKinds(object); err != nil || !slices.Contains(kinds, kind) { // else the version is the internal one, too
		if versioned, err = admission.ConvertToGVK(object, kind, o); err != nil {
			return nil, nil, fmt.Errorf("cannot convert the object to %s: %w", kind, err)
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the object as %s: %w", kind, err)
	}
	u = &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, versioned, nil
}

// userOf a request.
func userOf(info user.Info) subject.User {
	if info == nil {
		return subject.User{}
	}
	return subject.User{Name: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups(), Extra: info.GetExtra()}
}
