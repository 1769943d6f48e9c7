package fn

import (
	"maps"
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// resource is one composed resource: as observed, and as the pipeline wants it.
type resource struct {
	// name in the pipeline.
	name string
	// observed is nil where the resource does not exist, or has no kind.
	observed *offline.Resource
	// want is the pipeline's message, nil where it wants none. desired is its content, nil where that has
	// no kind; it may be modified.
	want    *fnv1.Resource
	desired *unstructured.Unstructured
	// operation that Crossplane would carry out; "" where there is nothing to decide.
	operation admission.Operation
	// replaced: the pipeline wants an object of another kind under the name.
	// Crossplane creates that one, and no longer manages the observed one.
	replaced bool
	// masked by an earlier Kausality step of the pipeline.
	masked bool

	// after is what the apply would leave; nil for a removal.
	after *unstructured.Unstructured
	// decision is valid where decided is true.
	decision admission.Decision
	decided  bool
	// rest is the part of a change that is emitted where another part is held; nil for all or none.
	rest *fnv1.Resource
	// opens is the content of the once approval by which the function opens its
	// gate; "" for none.
	opens string
	// outside is how the external resource differs behind the gate of the function, where
	// that is not approved; nil for not.
	outside *v1alpha1.DriftSpec
	// outsideLacks is what the votes to revert that lack, as a clause; empty for nothing.
	outsideLacks string
	// notes for users.
	notes []string
}

// resourcesOf returns the resources of a request, sorted by name: those that are observed or desired.
func resourcesOf(req *fnv1.RunFunctionRequest, xr parent.Ref) []*resource {
	observed, desired := req.GetObserved().GetResources(), req.GetDesired().GetResources()
	names := slices.AppendSeq(make([]string, 0, len(observed)+len(desired)), maps.Keys(observed))
	names = slices.AppendSeq(names, maps.Keys(desired))
	slices.Sort(names)
	names = slices.Compact(names)
	all := make([]resource, len(names)) // in one piece of memory
	out := make([]*resource, len(names))
	for i, name := range names {
		r := &all[i]
		r.name, out[i] = name, r
		var like map[string]any
		if is, ok := observed[name]; ok {
			if r.observed = offline.Observe(is.GetResource(), xr); r.observed != nil {
				like = r.observed.Object
			}
		}
		if want, ok := desired[name]; ok {
			r.want, r.desired = want, ssa.Unstructured(ssa.ObjectLike(want.GetResource(), like))
			r.unmask()
		}
		r.replaced = r.observed != nil && r.desired != nil && kindOf(r.observed.Unstructured) != kindOf(r.desired)
		r.operation = r.operationOf()
	}
	return out
}

// unmask removes the mask from what is desired where an earlier Kausality step of the pipeline masked
// it: the decision is about what its author wants.
func (r *resource) unmask() {
	if r.desired == nil || ssa.Child(r.desired.Object, "spec")[mask.FieldManagementPolicies] == nil {
		return
	}
	author, ok := mask.ParseAuthor(ssa.AnnotationOf(r.desired.Object, v1alpha1.AnnotationKeyManagementPolicies))
	if ok {
		r.desired.Object, r.masked = mask.WithPolicies(r.desired.Object, author), true
	}
}

func kindOf(u *unstructured.Unstructured) schema.GroupKind { return u.GroupVersionKind().GroupKind() }

func (r *resource) operationOf() admission.Operation {
	switch {
	case r.desired == nil && r.want != nil:
		return "" // it cannot be applied
	case r.desired == nil && (r.observed == nil || r.observed.GetDeletionTimestamp() != nil):
		return ""
	case r.desired == nil:
		return admission.Delete
	case r.observed == nil, r.replaced:
		return admission.Create
	}
	return admission.Update
}

// current returns the observed object; nil where it does not exist.
func (r *resource) current() *unstructured.Unstructured {
	if r.observed == nil {
		return nil
	}
	return r.observed.Unstructured
}

// refused reports whether the decision refuses the change of the resource.
func (r *resource) refused() bool { return r.decided && !r.decision.Allowed }

// changes reports whether the desired state changes by an accepted operation.
func (r *resource) changes() bool {
	return r.decided && r.decision.Allowed && r.decision.Class != outcome.ClassNone
}

// annotation returns an annotation of Kausality on the resource as emitted: as stored, or as the
// decision edits it where edits is true and the change is accepted. It is "" where the annotation is not
// set.
func (r *resource) annotation(key string, edits bool) string {
	if edit, ok := r.decision.Annotations[key]; ok && edits && r.changes() {
		return ptr.Deref(edit, "")
	}
	if r.replaced && !r.refused() {
		return "" // a new object
	}
	return r.observed.Annotation(key)
}
