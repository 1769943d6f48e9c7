package request

import (
	"cmp"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
)

// Operation of a request.
type Operation string

// The operations that are decided.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// SubresourceScale is the one subresource whose writes are intents. The request is
// about the scaled object, before and after, and not about the Scale that the API
// server sends.
const SubresourceScale = "scale"

// Actor is what an adapter knows of the user beyond the name.
type Actor string

const (
	// ActorUnknown leaves it to the rules of docs/specification.md, section 4.
	ActorUnknown Actor = ""
	// ActorParentController is certain to be the parent's controller: the
	// composition function is part of it.
	ActorParentController Actor = "ParentController"
)

// Managers of the fields of an object.
type Managers interface {
	// ManagedFields of the object, as it has them; nil for none, and where none shows more than its controller.
	ManagedFields() []any
}

// Request to decide. Nothing in it is modified, so that several decisions may share it.
type Request struct {
	Operation   Operation
	Kind        schema.GroupVersionKind
	Subresource string
	Namespace   string
	// Name is empty on a CREATE with generateName.
	Name string
	// Object after the write; nil on DELETE.
	Object *unstructured.Unstructured
	// OldObject before the write; nil on CREATE.
	OldObject *unstructured.Unstructured
	// OldStatus is the status of OldObject, nil for none, where an UPDATE leaves it
	// out there: few are decided by it, and it may be most of an object. Else nil.
	OldStatus func() any
	// OldManagers has the managedFields of OldObject, where it has none since the adapter leaves them out. Else nil.
	OldManagers  Managers
	User         subject.User
	FieldManager string
	DryRun       bool
	// Orphans: a DELETE removes the owner references of the dependents, and deletes none
	// (propagationPolicy Orphan).
	Orphans bool
	Actor   Actor
	// Held of the child before; nil for none.
	Held *Held
	// Controller is the user name under which the write will be made, where the
	// adapter decides before it is: of UpgradeAllowances, those for it count.
	Controller string
	// Time of the request; it is stored in hops.
	Time time.Time
}

// Current returns the object that the request leaves, or the one that it deletes.
func (r *Request) Current() *unstructured.Unstructured { return cmp.Or(r.Object, r.OldObject) }

// Deleted returns the object that is deleted; nil for other operations.
func (r *Request) Deleted() *unstructured.Unstructured {
	if r.Operation != Delete {
		return nil
	}
	return r.OldObject
}

// Unstored reports whether the adapter decides before the write is made, on an object
// that the API server has not seen.
func (r *Request) Unstored() bool { return r.Actor != "" }

// Stored returns the stored object, which one request cannot rewrite to bypass a decision about itself
// (KR-04-12). On CREATE it is the new object.
func (r *Request) Stored() *unstructured.Unstructured { return cmp.Or(r.OldObject, r.Object) }

// Whole returns the object with its status.
func (r *Request) Whole() *unstructured.Unstructured {
	if r.OldObject == nil || r.OldStatus == nil {
		return r.Stored()
	}
	status := r.OldStatus()
	if status == nil {
		return r.OldObject
	}
	out := maps.Clone(r.OldObject.Object)
	out["status"] = status
	return &unstructured.Unstructured{Object: out}
}

// Ref returns the reference to the object.
func (r *Request) Ref() parent.Ref {
	o := r.Current()
	return parent.Ref{GroupVersionKind: r.Kind, Namespace: r.Namespace, Name: cmp.Or(r.Name, o.GetName()), UID: o.GetUID()}
}

// NextGeneration returns the generation after the write; 0 for a kind without (KR-07-02).
func (r *Request) NextGeneration() int64 {
	return trace.NextGeneration(r.OldObject, r.Object, r.Kind.GroupKind())
}
