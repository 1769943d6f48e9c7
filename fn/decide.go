package fn

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/builtin"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// decide makes the decision about each resource in its order: a once approval that several could use is
// used by the first (KR-09-02).
func (r *run) decide(ctx context.Context) {
	evaluator := &admission.Evaluator{
		World: r.world, Options: admission.Options{
			DefaultMode: r.cfg.mode, Unreported: true, Remember: true, Separates: true, KeepIntent: !r.composite.Webhook,
			Provenance: r.cfg.provenance,
		},
	}
	guarded, unguarded := r.policies.Sets()
	r.guarded = guarded
	var read *parent.State
	for _, res := range r.resources {
		if res.operation == "" {
			continue
		}
		res.decided = true
		state := r.composite.State // it is replaced when an approval is used
		r.world.unverified = nil
		if evaluator.Policies = guarded; res.observed != nil && !res.observed.Guarded() {
			evaluator.Policies = unguarded
			if state = verified(r); state != r.composite.State {
				r.world.unverified = state
			}
		}
		if state != read {
			read = state
			evaluator.Parent = admission.Read(read)
		}
		d, err := evaluator.Live(ctx, r.request(res))
		if err != nil { // the core reads nothing but the request, which cannot fail
			d = admission.Decision{Answer: admission.Answer{Reason: outcome.ReasonParentUnreadable, Message: "cannot decide: " + err.Error()}}
		}
		if res.decision = d; !d.Allowed && d.Lacks != "" && r.world.unverified != nil {
			res.notes = append(res.notes, noteUnverified)
		}
		r.separate(res)
		r.writeCause(res)
		if d := &res.decision; d.Allowed && d.Claim != nil {
			r.composite.Take(d.Claim.Entry.Content)
		}
	}
}

// noteUnverified is about a resource for which there are votes that are not counted.
const noteUnverified = "votes on the composite do not count for it: no webhook guards the resource, and the function has no key to verify them; " +
	"mount the Secret kausality-claims-key and set --claims-key-file"

// verified returns the composite without the votes that nothing verifies: those for a resource that no webhook guards, where the function has
// no key (KR-13-69).
func verified(r *run) *parent.State {
	if r.cfg.claims != nil {
		return r.composite.State
	}
	return offline.WithoutVotes(r.composite)
}

// request returns the request to the core for what Crossplane would do.
func (r *run) request(res *resource) *admission.Request {
	op := res.operation
	req := &admission.Request{
		Held:      r.before(res, op),
		Operation: op, Actor: admission.ActorParentController, Controller: r.cfg.crossplane,
		// Hops have this time, which must be the same on every reconcile.
		Time: r.composite.Intent.Timestamp.Time,
	}
	switch op {
	case admission.Update:
		req.OldObject, req.OldStatus = r.owned(res), func() any { return res.observed.Whole().Object["status"] }
		req.OldManagers = res.observed
	case admission.Delete:
		res.observed.Whole()
		req.OldObject = r.owned(res)
	}
	is := req.OldObject
	if op != admission.Delete {
		res.after = r.after(res, op)
		req.Object, is = res.after, res.after
	}
	req.Kind, req.Namespace, req.Name = is.GroupVersionKind(), is.GetNamespace(), is.GetName()
	return req
}

// owned returns the observed resource with the owner and the name that Crossplane's apply gives it: a
// resource whose apply is yet to land may lack them.
func (r *run) owned(res *resource) *unstructured.Unstructured {
	if r.isComposed(res) {
		return res.observed.Unstructured
	}
	content := maps.Clone(res.observed.Object)
	metadata := ssa.Clone(ssa.Child(content, "metadata"))
	content["metadata"] = r.composed(metadata, ssa.Clone(ssa.Child(metadata, "annotations")), res.name)
	return &unstructured.Unstructured{Object: content}
}

// after returns what the apply would leave. What does not change is shared with the observed resource.
func (r *run) after(res *resource, op admission.Operation) *unstructured.Unstructured {
	desired := res.desired.Object
	metadata := ssa.Child(desired, "metadata")
	wanted := ssa.Child(metadata, "annotations")
	if op != admission.Create {
		aligned := desired
		if builtin.Has(desired) { // the API server returns what it stores (KR-09-16)
			aligned, _ = builtin.Align(desired, res.observed.Object, builtin.Replaces)
		}
		if res.observed.Again(desired) {
			aligned = ssa.Stored(res.observed.Object, aligned)
		}
		content := ssa.Apply(res.observed.Object, aligned, res.observed.Owned)
		content["apiVersion"], content["kind"] = desired["apiVersion"], desired["kind"]
		ssa.DefaultPolicies(res.observed.Object, content)
		content["metadata"] = r.appliedMetadata(res, wanted)
		return &unstructured.Unstructured{Object: content}
	}
	content := maps.Clone(desired)
	metadata = ssa.Clone(metadata)
	if ns := r.composite.State.Namespace; ns != "" {
		metadata["namespace"] = ns
	}
	if res.observed != nil { // Crossplane keeps the name when the kind changes
		metadata["name"] = res.observed.GetName()
	}
	content["metadata"] = r.composed(metadata, ssa.Honoured(wanted), res.name)
	return &unstructured.Unstructured{Object: content}
}

// appliedMetadata returns the metadata that the apply would leave: the observed map where it changes
// nothing.
func (r *run) appliedMetadata(res *resource, wanted map[string]any) map[string]any {
	metadata := ssa.Child(res.observed.Object, "metadata")
	annotations, changed := ssa.Annotations(ssa.Child(metadata, "annotations"), wanted, res.observed.Owned)
	switch {
	case !changed && r.isComposed(res):
		return metadata
	case !changed:
		annotations = ssa.Clone(annotations)
	}
	return r.composed(ssa.Clone(metadata), annotations, res.name)
}

// composed completes metadata as Crossplane does for its composed resources; both
// maps are modified, and not nil.
func (r *run) composed(metadata, annotations map[string]any, name string) map[string]any {
	annotations[v1alpha1.AnnotationKeyCompositionResourceName] = name
	metadata["annotations"], metadata["ownerReferences"] = annotations, r.owner
	delete(metadata, "managedFields")
	return metadata
}

// isComposed reports whether composed would leave the observed metadata as it is.
func (r *run) isComposed(res *resource) bool {
	owners, _ := ssa.Child(res.observed.Object, "metadata")["ownerReferences"].([]any)
	return res.observed.Annotation(v1alpha1.AnnotationKeyCompositionResourceName) == res.name && slices.EqualFunc(owners, r.owner, sameOwner)
}

func sameOwner(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return maps.EqualFunc(x, y, func(v, w any) bool { return ssa.Scalar(v) && v == w })
}
