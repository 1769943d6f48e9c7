package admission

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Operation of a request.
type Operation string

// The operations that are decided.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// SubresourceScale is the one subresource whose writes are intents. An adapter
// asks about the object that is scaled, before and after, and not about the Scale
// that the API server sends.
const SubresourceScale = "scale"

// Actor says what an adapter knows of who asks beyond the user's name.
type Actor string

const (
	// ActorUnknown leaves it to the rules of spec 4.
	ActorUnknown Actor = ""
	// ActorParentController is certain to be the parent's controller: the
	// composition function is part of it.
	ActorParentController Actor = "ParentController"
)

// Request to decide. Nothing in it is modified.
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
	OldStatus    func() any
	User         subject.User
	FieldManager string
	DryRun       bool
	Actor        Actor
	// Controller is the user name under which the write will be made, where the
	// adapter decides before it is: of UpgradeAllowances, those for it count.
	Controller string
	// Time of the request; stands in hops.
	Time time.Time
}

// current is the object the request leaves, or leaves nothing of.
func (r *Request) current() *unstructured.Unstructured {
	if r.Object != nil {
		return r.Object
	}
	return r.OldObject
}

// unstored: the adapter decides before the write is made, on an object that the
// API server has not seen.
func (r *Request) unstored() bool { return r.Actor != "" }

// stored is the object as it stands: what one request cannot rewrite to get
// around a decision about itself. The new one on CREATE.
func (r *Request) stored() *unstructured.Unstructured {
	if r.OldObject != nil {
		return r.OldObject
	}
	return r.Object
}

// whole is stored with its status.
func (r *Request) whole() *unstructured.Unstructured {
	if r.OldObject == nil || r.OldStatus == nil {
		return r.stored()
	}
	status := r.OldStatus()
	if status == nil {
		return r.OldObject
	}
	out := maps.Clone(r.OldObject.Object)
	out["status"] = status
	return &unstructured.Unstructured{Object: out}
}

// annotation of an object, "" where it has none; without the copy of them all
// that GetAnnotations makes.
func annotation(o *unstructured.Unstructured, key string) string {
	value, _ := annotations(o)[key].(string)
	return value
}

// sameText: two values are the same string.
func sameText(a, b any) bool {
	x, ok := a.(string)
	y, is := b.(string)
	return ok && is && x == y
}

func annotations(o *unstructured.Unstructured) map[string]any {
	meta, _ := o.Object["metadata"].(map[string]any)
	all, _ := meta["annotations"].(map[string]any)
	return all
}

// isDeleting reports whether an object has a deletionTimestamp.
func isDeleting(o *unstructured.Unstructured) bool {
	meta, _ := o.Object["metadata"].(map[string]any)
	return meta["deletionTimestamp"] != nil && o.GetDeletionTimestamp() != nil // which allocates where there is none
}

// modeAnnotation is the one annotation that ModeOf reads.
func modeAnnotation(o *unstructured.Unstructured) map[string]string {
	mode := annotation(o, v1alpha1.AnnotationKeyMode)
	if mode == "" {
		return nil
	}
	return map[string]string{v1alpha1.AnnotationKeyMode: mode}
}

// ref of the object.
func (r *Request) ref() parent.Ref {
	ref := parent.RefOf(r.current())
	ref.GroupVersionKind, ref.Namespace = r.Kind, r.Namespace
	if r.Name != "" {
		ref.Name = r.Name
	}
	return ref
}
