package fn

import (
	"slices"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// resource is one composed resource: as it is and as the pipeline wants it.
type resource struct {
	// name in the pipeline.
	name string
	// observed and desired are nil where there is none, or none that can be
	// decided about. observed has no managedFields, and its status once whole read it.
	observed, desired *unstructured.Unstructured
	// is is the message that observed was read from; stated, its status too.
	is     *structpb.Struct
	stated bool
	// want is the pipeline's message; nil where it wants none.
	want *fnv1.Resource
	// owned by whom; of observed.
	owned *ssa.Ownership

	// stored trace of observed, and the composite's own hop in it; nil for none.
	stored trace.Trace
	hop    *v1alpha1.Hop

	// summed up, once asked for.
	summed *parent.State

	// notes for people about it that are no decision.
	notes []string

	// opens is the content of the once approval by which the function opens its
	// gate; "" for none.
	opens string

	// operation that Crossplane would carry out; "" where there is none to decide
	// about.
	operation admission.Operation
	// replaced: the pipeline wants an object of another kind under the name.
	// Crossplane then creates that one, and forgets the old one.
	replaced bool

	// masked by an earlier Kausality step of the pipeline.
	masked bool
	// after is what the apply would leave; nil for a removal.
	after    *unstructured.Unstructured
	decision admission.Decision
	// decided: there was something to decide.
	decided bool
}

// resourcesOf the request, sorted by name: those that are, and those that are
// wanted.
func resourcesOf(req *fnv1.RunFunctionRequest, xr parent.Ref) []*resource {
	observed, desired := req.GetObserved().GetResources(), req.GetDesired().GetResources()
	out := make([]*resource, 0, max(len(observed), len(desired)))
	for name, want := range desired {
		r := &resource{name: name, want: want, desired: ssa.Unstructured(ssa.Object(want.GetResource()))}
		r.unmask()
		out = append(out, r)
	}
	byName := make(map[string]*resource, len(out))
	for _, r := range out {
		byName[r.name] = r
	}
	for name, is := range observed {
		r, ok := byName[name]
		if !ok {
			r = &resource{name: name}
			out = append(out, r)
		}
		r.observe(is.GetResource(), xr)
	}
	for _, r := range out {
		r.replaced = r.observed != nil && r.desired != nil && kindOf(r.observed) != kindOf(r.desired)
		r.operation = r.operationOf()
	}
	slices.SortFunc(out, func(a, b *resource) int { return strings.Compare(a.name, b.name) })
	return out
}

func (r *resource) observe(s *structpb.Struct, xr parent.Ref) {
	if r.observed = ssa.Unstructured(ssa.ObjectWithoutStatus(s)); r.observed == nil {
		return
	}
	r.is, r.owned = s, ssa.Own(s)
	r.stored = trace.Of(map[string]string{v1alpha1.AnnotationKeyTrace: r.annotation(v1alpha1.AnnotationKeyTrace)})
	if n := len(r.stored); n > 1 && about(r.stored[n-2], xr) {
		r.hop = &r.stored[n-2]
	}
}

// whole is the observed resource with its status.
func (r *resource) whole() *unstructured.Unstructured {
	if status, ok := r.is.GetFields()["status"]; ok && !r.stated {
		r.observed.Object["status"], r.stated = ssa.FromValue(status), true
	}
	return r.observed
}

// about reports whether a hop is an object's.
func about(h v1alpha1.Hop, ref parent.Ref) bool {
	group := schema.FromAPIVersionAndKind(h.APIVersion, h.Kind).Group
	return h.Kind == ref.Kind && group == ref.Group && h.Name == ref.Name
}

// annotation of the observed resource; "" where it has none.
func (r *resource) annotation(key string) string {
	if r.observed == nil {
		return ""
	}
	return ssa.Text(ssa.Child(ssa.Child(r.observed.Object, "metadata"), "annotations"), key)
}

func kindOf(u *unstructured.Unstructured) schema.GroupKind { return u.GroupVersionKind().GroupKind() }

func (r *resource) operationOf() admission.Operation {
	switch {
	case r.desired == nil && r.want != nil:
		return "" // nothing that could be applied
	case r.desired == nil && r.observed == nil:
		return ""
	case r.desired == nil && r.observed.GetDeletionTimestamp() != nil:
		return "" // on its way out already
	case r.desired == nil:
		return admission.Delete
	case r.observed == nil, r.replaced:
		return admission.Create
	}
	return admission.Update
}

// refused by the decision.
func (r *resource) refused() bool { return r.decided && !r.decision.Allowed }

// changes reports whether the resource's desired state will be another.
func (r *resource) changes() bool {
	return r.decided && r.decision.Allowed && r.decision.Class != admission.ClassNone
}
