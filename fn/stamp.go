package fn

import (
	"maps"
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// emit the desired state: what may pass with its trace, what may not as it is.
func (r *run) emit() {
	out := make(map[string]*fnv1.Resource, len(r.resources))
	r.keeper = r.rememberer()
	for _, res := range r.resources {
		switch {
		case res.refused() && res.observed == nil:
			continue // a new resource
		case res.refused():
			out[res.name] = r.stamp(res, r.held(res))
		case res.want == nil:
			continue // removed
		case !res.decided:
			out[res.name] = res.want // nothing that can be decided about
		default:
			content := &structpb.Struct{Fields: maps.Clone(res.want.GetResource().GetFields())}
			out[res.name] = r.stamp(res, &fnv1.Resource{
				Resource: content, ConnectionDetails: res.want.GetConnectionDetails(), Ready: res.want.GetReady(),
			})
		}
	}
	r.rsp.Desired = &fnv1.State{Composite: r.req.GetDesired().GetComposite(), Resources: out}
}

// stamp our annotations on what is emitted, none but those that we work out. The
// message and the top level of its object are ours (KR-09-03).
func (r *run) stamp(res *resource, out *fnv1.Resource) *fnv1.Resource {
	value, after := r.traceOf(res)
	set := map[string]string{v1alpha1.AnnotationKeyTrace: value}
	if held := r.heldAnnotation(res); held != "" {
		set[v1alpha1.AnnotationKeyHeld] = held
	}
	if res == r.keeper {
		r.store(set, after)
	}
	r.kept(res, set)
	policies := r.gate(res, set)
	if used := r.composite.usedAnnotation(res, after); used != "" {
		set[v1alpha1.AnnotationKeyUsedApprovals] = used
	}
	if policies == nil && res.masked && !res.refused() {
		res.keepMask(set)
	}
	annotate(out.GetResource(), set)
	if policies != nil {
		setPolicies(out.GetResource(), policies)
	}
	return out
}

// kept annotations of ours: as stored, and as the decision edits them. Of builds
// a webhook knows more (KR-09-07).
func (r *run) kept(res *resource, set map[string]string) {
	for _, k := range []string{v1alpha1.AnnotationKeyAllowances, v1alpha1.AnnotationKeyFingerprint, v1alpha1.AnnotationKeyLastUpgrade} {
		v := res.annotation(k)
		if res.observed != nil && res.replaced && !res.refused() {
			v = ""
		}
		if edit, ok := res.decision.Annotations[k]; ok && res.changes() && (k == v1alpha1.AnnotationKeyAllowances || !r.composite.webhook) {
			if v = ""; edit != nil {
				v = *edit
			}
		}
		if v != "" {
			set[k] = v
		}
	}
}

// traceOf a resource as emitted. Where nothing changes it is the stored one to
// the letter: Crossplane applies on every reconcile.
func (r *run) traceOf(res *resource) (string, trace.Trace) {
	c := r.composite
	switch {
	case res.changes(), res.observed == nil:
		return res.decision.Trace.String(), res.decision.Trace
	case len(res.stored) == 0:
		t := r.derived(res)
		return t.String(), t
	case c.latched && !c.webhook && res.hop != nil && same(*res.hop, c.intent) && !res.hop.Settled:
		t := slices.Clone(res.stored)
		t[len(t)-2].Settled = true
		return t.String(), t
	}
	return res.annotation(v1alpha1.AnnotationKeyTrace), res.stored
}

// derived trace of a resource that was there before us.
func (r *run) derived(res *resource) trace.Trace {
	s := r.composite.state
	ref := res.state().Ref
	hop := trace.Hop(ref, res.observed.GetGeneration(), "", r.composite.intent.Timestamp.Time)
	hop.Unattributed = true
	return trace.Extend(trace.Current(s), s.Ref, hop, ref.Namespace)
}

// annotate an object, of which the top level alone is modified: of our annotations
// those that a Composition may set and those given stay.
func annotate(object *structpb.Struct, set map[string]string) {
	metadata := fieldsOf(object.Fields["metadata"])
	annotations := fieldsOf(metadata["annotations"])
	maps.DeleteFunc(annotations, func(k string, _ *structpb.Value) bool { return !ssa.IsHonoured(k) })
	for k, v := range set {
		annotations[k] = ssa.StringOf(v)
	}
	metadata["annotations"] = ssa.StructOf(annotations)
	object.Fields["metadata"] = ssa.StructOf(metadata)
}

// setPolicies sets spec.managementPolicies of an object, of which the top level
// alone is modified.
func setPolicies(object *structpb.Struct, policies []string) {
	spec := fieldsOf(object.Fields["spec"])
	list := &structpb.ListValue{Values: make([]*structpb.Value, 0, len(policies))}
	for _, p := range policies {
		list.Values = append(list.Values, ssa.StringOf(p))
	}
	spec["managementPolicies"] = structpb.NewListValue(list)
	object.Fields["spec"] = ssa.StructOf(spec)
}

// fieldsOf a value, in a map of their own; never nil.
func fieldsOf(v *structpb.Value) map[string]*structpb.Value {
	out := maps.Clone(v.GetStructValue().GetFields())
	if out == nil {
		out = map[string]*structpb.Value{}
	}
	return out
}
