package fn

import (
	"cmp"
	"maps"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// emit writes the desired state: what is allowed with its trace, what is refused as it is.
func (r *run) emit() {
	out := make(map[string]*fnv1.Resource, len(r.resources))
	r.keeper = r.findKeeper(false)
	if r.lister = r.keeper; r.keeper != nil && !r.keeper.observed.Guarded() && len(r.creations()) > 0 {
		r.lister = cmp.Or(r.findKeeper(true), r.keeper)
	}
	for _, res := range r.resources {
		switch {
		case res.refused() && res.observed == nil, res.want == nil && !res.refused():
			// not created, or removed
		case res.refused():
			out[res.name] = r.stamp(res, r.held(res))
		case res.rest != nil:
			out[res.name] = r.stamp(res, res.rest)
		case !res.decided:
			out[res.name] = res.want // without a kind nothing can be decided
		default:
			out[res.name] = r.stamp(res, &fnv1.Resource{
				Resource:          &structpb.Struct{Fields: maps.Clone(res.want.GetResource().GetFields())},
				ConnectionDetails: res.want.GetConnectionDetails(), Ready: res.want.GetReady(),
			})
		}
	}
	r.rsp.Desired = &fnv1.State{Composite: r.req.GetDesired().GetComposite(), Resources: out}
}

// findKeeper returns the first resource that exists and stays, of those that the webhook
// guards or of all; nil for none.
func (r *run) findKeeper(guarded bool) *resource {
	for _, res := range r.resources {
		if res.observed == nil || res.observed.GetDeletionTimestamp() != nil {
			continue
		}
		if guarded && !res.observed.Guarded() {
			continue
		}
		if res.refused() || res.want != nil && res.decided && !res.replaced {
			return res
		}
	}
	return nil
}

// stamp sets the annotations of Kausality on what is emitted, and removes those that are not computed
// here (KR-09-03). The message and the top level of its object are modified, all below is shared.
func (r *run) stamp(res *resource, out *fnv1.Resource) *fnv1.Resource {
	c := r.composite
	carried, after := r.traceOf(res)
	set := map[string]string{ // "" is no annotation
		v1alpha1.AnnotationKeyApplied:     r.applied(res),
		v1alpha1.AnnotationKeyTrace:       carried,
		v1alpha1.AnnotationKeyHeld:        r.heldAnnotation(res),
		v1alpha1.AnnotationKeyAllowances:  res.annotation(v1alpha1.AnnotationKeyAllowances, true),
		v1alpha1.AnnotationKeyFingerprint: r.recorded(res, v1alpha1.AnnotationKeyFingerprint),
		v1alpha1.AnnotationKeyLastUpgrade: r.recorded(res, v1alpha1.AnnotationKeyLastUpgrade),
	}
	if res == r.keeper {
		set[v1alpha1.AnnotationKeySettledFields] = r.remembered
		set[v1alpha1.AnnotationKeySettledIntent] = c.NoteFor(after)
	}
	if res == r.lister {
		set[v1alpha1.AnnotationKeyHeldCreations] = offline.FormatCreations(r.creations())
	}
	policies := r.gate(res, set)
	set[v1alpha1.AnnotationKeyUsedApprovals] = c.UsedAnnotation(res.observed, after, res.opens)
	if policies == nil && res.masked && !res.refused() {
		keepMask(res, set)
	}
	annotate(out.GetResource(), set)
	if policies != nil {
		setPolicies(out.GetResource(), policies)
		r.allow(res, out, set)
	}
	return out
}

// recorded returns the annotation of a resource as emitted, which a webhook writes where there is one.
// The function then emits it only where it did before: to apply it, too, would be a write of its own
// (KR-04-18).
func (r *run) recorded(res *resource, key string) string {
	if r.composite.Webhook && res.observed != nil && !res.observed.Owned.Annotates(key) {
		return ""
	}
	return res.annotation(key, !r.composite.Webhook)
}

// applied returns the value of v1alpha1.AnnotationKeyApplied on a resource as emitted; "" for none. Most resources are stored as they are
// applied, and never have it: until the composite settles, it is recorded if a difference is left after a change that has the same cause.
func (r *run) applied(res *resource) string {
	is := res.observed
	was := is.Annotation(v1alpha1.AnnotationKeyApplied)
	switch {
	case is == nil, res.rest != nil, res.replaced && !res.refused():
		return ""
	case res.refused(), !res.changes() && is.Applied(res.desired.Object):
		return was
	case r.earlier.reason == v1alpha1.ConditionReasonHeld: // by an earlier Kausality step of the pipeline, perhaps of this resource
		return ssa.AnnotationOf(res.desired.Object, v1alpha1.AnnotationKeyApplied)
	case res.changes() && (was != "" || r.composite.Latched || is.Changed(r.composite)):
		return offline.DigestOf(res.desired.Object)
	}
	return ""
}

// traceOf returns the trace of a resource as emitted, as text and parsed. Where nothing changes it is
// the stored text, byte for byte: Crossplane applies on every reconcile.
func (r *run) traceOf(res *resource) (string, trace.Trace) {
	t := res.decision.Trace
	switch {
	case res.changes(), res.observed == nil:
	case len(res.observed.Trace) == 0:
		t = r.untraced(res)
	default:
		if t = r.composite.MarkSettled(res.observed); t == nil {
			return res.observed.Annotation(v1alpha1.AnnotationKeyTrace), res.observed.Trace
		}
	}
	return t.String(), t
}

// untraced returns the trace of a resource that existed before Kausality (KR-07-04).
func (r *run) untraced(res *resource) trace.Trace {
	s := r.composite.State
	ref := res.observed.State().Ref
	hop := trace.Hop(ref, res.observed.GetGeneration(), "", r.composite.Intent.Timestamp.Time)
	hop.Unattributed = true
	return trace.Extend(trace.Current(s), s.Ref, hop, ref.Namespace)
}

// annotate sets annotations of an object; only the top level of the object is modified. Of Kausality's
// annotations, those that a Composition may set stay and those given are set.
func annotate(object *structpb.Struct, set map[string]string) {
	metadata := object.GetFields()["metadata"].GetStructValue().GetFields()
	annotations := ssa.Clone(metadata["annotations"].GetStructValue().GetFields())
	maps.DeleteFunc(annotations, func(k string, _ *structpb.Value) bool { return !ssa.IsHonoured(k) })
	for k, v := range set {
		if v != "" {
			annotations[k] = ssa.StringOf(v)
		}
	}
	object.Fields["metadata"] = ssa.StructOf(ssa.With(metadata, ssa.StructOf(annotations), "annotations"))
}

// setPolicies sets spec.managementPolicies of an object. Only the top level of the object is
// modified.
func setPolicies(object *structpb.Struct, policies []string) {
	values := make([]*structpb.Value, 0, len(policies))
	for _, p := range policies {
		values = append(values, ssa.StringOf(p))
	}
	spec := object.GetFields()["spec"].GetStructValue().GetFields()
	object.Fields["spec"] = ssa.StructOf(ssa.With(spec, ssa.ListOf(values), mask.FieldManagementPolicies))
}
