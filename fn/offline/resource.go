package offline

import (
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// Resource is an observed composed resource. It is read lazily, since converting
// a message is most of the work of a run in which nothing changes. It is not safe
// for concurrent use.
type Resource struct {
	// Unstructured is the object without managedFields, and without its status
	// until Whole is called.
	*unstructured.Unstructured
	// Message of the request that the object was read from.
	Message *structpb.Struct
	// Owned is who applied which of its fields.
	Owned *ssa.Ownership
	// Trace that is stored on it; nil for none.
	Trace trace.Trace
	// Hop of the composite in Trace; nil for none.
	Hop *v1alpha1.Hop

	// whole is set once Unstructured has the status.
	whole bool
	// state is nil until State is called.
	state *parent.State
}

// Observe reads a composed resource of a composite; nil for a message without
// kind or apiVersion.
func Observe(s *structpb.Struct, xr parent.Ref) *Resource {
	u := ssa.Unstructured(ssa.ObjectWithoutStatus(s))
	if u == nil {
		return nil
	}
	r := &Resource{Unstructured: u, Message: s, Owned: ssa.Own(s)}
	r.Trace = trace.Of(map[string]string{v1alpha1.AnnotationKeyTrace: r.Annotation(v1alpha1.AnnotationKeyTrace)})
	// The last hop is the resource's own, the one before it its composite's.
	if n := len(r.Trace); n > 1 && isOf(r.Trace[n-2], xr) {
		r.Hop = &r.Trace[n-2]
	}
	return r
}

// isOf reports whether a hop is an object's.
func isOf(h v1alpha1.Hop, ref parent.Ref) bool {
	group := schema.FromAPIVersionAndKind(h.APIVersion, h.Kind).Group
	return h.Kind == ref.Kind && group == ref.Group && h.Name == ref.Name
}

// Whole returns the object with its status.
func (r *Resource) Whole() *unstructured.Unstructured {
	if status, ok := r.Message.GetFields()["status"]; ok && !r.whole {
		r.Object["status"], r.whole = ssa.FromValue(status), true
	}
	return r.Unstructured
}

// ManagedFields returns those of the object, which Unstructured leaves out; nil where no manager but the pipeline has a field of the
// desired state.
func (r *Resource) ManagedFields() []any {
	if !r.Owned.Shared() {
		return nil
	}
	list := r.Message.GetFields()["metadata"].GetStructValue().GetFields()["managedFields"]
	out, _ := ssa.FromValue(list).([]any)
	return out
}

// State returns the summary of the object with its status.
func (r *Resource) State() *parent.State {
	if r.state == nil {
		r.state = parent.Sum(r.Whole(), ssa.RoleOf(ssa.Child(r.Object, "spec")))
	}
	return r.state
}

// Annotation returns an annotation of the object; "" where it is not set, and of a nil Resource.
func (r *Resource) Annotation(key string) string {
	if r == nil {
		return ""
	}
	return ssa.AnnotationOf(r.Object, key)
}
