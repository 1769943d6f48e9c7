package fn

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// decide about each resource in its order: a once approval that several could
// use goes to the first (KR-09-02).
func (r *run) decide(ctx context.Context) {
	evaluator := &admission.Evaluator{World: r.world, Options: admission.Options{DefaultMode: r.cfg.mode, Unreported: true}, Policies: r.policySet()}
	var read *parent.State
	for _, res := range r.resources {
		if res.operation == "" {
			continue
		}
		res.decided = true
		if r.composite.state != read {
			read = r.composite.state
			evaluator.Parent = admission.Read(read)
		}
		d, err := evaluator.Live(ctx, r.request(res))
		if err != nil { // the world is the request; there is nothing that cannot be read
			d = admission.Decision{Reason: admission.ReasonParentUnreadable, Message: "cannot decide: " + err.Error()}
		}
		res.decision = d
		if d.Allowed && d.Claim != nil {
			r.composite.take(d.Claim.Entry.Content)
		}
	}
}

// request to the core for what Crossplane would do.
func (r *run) request(res *resource) *admission.Request {
	op := res.operation
	req := &admission.Request{
		Operation: op, Actor: admission.ActorParentController, Controller: r.cfg.crossplane,
		// The time stands in hops, and must be the same on every reconcile.
		Time: r.composite.intent.Timestamp.Time,
	}
	switch op {
	case admission.Update:
		req.OldObject, req.OldStatus = r.before(res), func() any { return res.whole().Object["status"] }
	case admission.Delete:
		res.whole()
		req.OldObject = r.before(res)
	}
	if op != admission.Delete {
		res.after = r.after(res, op)
		req.Object = res.after
	}
	is := req.Object
	if is == nil {
		is = req.OldObject
	}
	req.Kind, req.Namespace, req.Name = is.GroupVersionKind(), is.GetNamespace(), is.GetName()
	return req
}

// before is the observed resource as a child of the composite.
func (r *run) before(res *resource) *unstructured.Unstructured {
	if r.isComposed(res.observed, res.name) {
		return res.observed
	}
	content := maps.Clone(res.observed.Object)
	metadata := maps.Clone(ssa.Child(content, "metadata"))
	annotations, _ := metadata["annotations"].(map[string]any)
	content["metadata"] = r.composed(metadata, maps.Clone(annotations), res.name)
	return &unstructured.Unstructured{Object: content}
}

// after is what the apply would leave.
func (r *run) after(res *resource, op admission.Operation) *unstructured.Unstructured {
	desired := res.desired.Object
	wanted := ssa.Child(ssa.Child(desired, "metadata"), "annotations")
	if op == admission.Create {
		content := maps.Clone(desired)
		metadata := maps.Clone(ssa.Child(desired, "metadata"))
		if metadata == nil {
			metadata = map[string]any{}
		}
		if ns := r.composite.state.Namespace; ns != "" {
			metadata["namespace"] = ns
		}
		if res.observed != nil { // Crossplane keeps the name when the kind changes
			metadata["name"] = res.observed.GetName()
		}
		content["metadata"] = r.composed(metadata, ssa.Honoured(wanted), res.name)
		return &unstructured.Unstructured{Object: content}
	}
	content := ssa.Apply(res.observed.Object, desired, res.owned)
	content["apiVersion"], content["kind"] = desired["apiVersion"], desired["kind"]
	ssa.DefaultPolicies(res.observed.Object, content)
	content["metadata"] = r.appliedMetadata(res, wanted)
	return &unstructured.Unstructured{Object: content}
}

// appliedMetadata is what the apply would leave of it, shared with the observed
// resource where that is what is there.
func (r *run) appliedMetadata(res *resource, wanted map[string]any) map[string]any {
	metadata := ssa.Child(res.observed.Object, "metadata")
	annotations, changed := ssa.Annotations(ssa.Child(metadata, "annotations"), wanted, res.owned)
	switch {
	case changed:
		return r.composed(maps.Clone(metadata), annotations, res.name)
	case r.isComposed(res.observed, res.name):
		return metadata
	}
	return r.composed(maps.Clone(metadata), maps.Clone(annotations), res.name)
}

// composed finishes the metadata of a composed resource as Crossplane does.
func (r *run) composed(metadata, annotations map[string]any, name string) map[string]any {
	if metadata == nil {
		metadata = map[string]any{}
	}
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[v1alpha1.AnnotationKeyCompositionResourceName] = name
	metadata["annotations"], metadata["ownerReferences"] = annotations, r.owner
	delete(metadata, "managedFields")
	return metadata
}

// isComposed: composed would leave the metadata of an observed resource as it is.
func (r *run) isComposed(observed *unstructured.Unstructured, name string) bool {
	metadata := ssa.Child(observed.Object, "metadata")
	owners, _ := metadata["ownerReferences"].([]any)
	return ssa.Text(ssa.Child(metadata, "annotations"), v1alpha1.AnnotationKeyCompositionResourceName) == name &&
		slices.EqualFunc(owners, r.owner, sameOwner)
}

func sameOwner(a, b any) bool {
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	return maps.EqualFunc(x, y, func(v, w any) bool { return ssa.Scalar(v) && v == w })
}
