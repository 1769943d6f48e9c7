package fn

import (
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/fn/offline"
	"github.com/kausality-io/function-kausality/fn/ssa"
)

// before returns what an earlier run held of a resource as drift; nil for none (KR-05-55).
func (r *run) before(res *resource, op admission.Operation) *admission.Held {
	if res.observed == nil {
		return r.creationBefore(res)
	}
	return offline.HeldBefore(res.observed.Annotation(v1alpha1.AnnotationKeyHeld), op)
}

// creationBefore returns what was held before of a resource that does not exist, as before does for others. Where nothing is composed there is
// no list: the condition alone shows that something is held, and any creation counts as held then.
func (r *run) creationBefore(res *resource) *admission.Held {
	return offline.CreationBefore(r.observed, res.name, res.desired.GetKind(), len(r.observed) == 0 && r.holdsAll())
}

// holdsAll reports whether the condition of a composite that settled once reports that
// something is held.
func (r *run) holdsAll() bool {
	c, ok := r.composite.State.Condition(v1alpha1.ConditionKausality)
	return ok && c.Reason == v1alpha1.ConditionReasonHeld && max(r.composite.Settled, r.composite.State.SettledGeneration()) > 0
}

// separate divides a change if a part of it stays held: the rest is emitted (KR-05-56). Where the
// apply of the rest would leave something else, all of the change is held.
func (r *run) separate(res *resource) {
	d := &res.decision
	if d.Held == nil {
		return
	}
	stays := d.Held.Drift.Values
	composed, wanted := ssa.Object(r.held(res).GetResource()), res.desired.Object
	c := change.Comparison{Lists: change.BuiltinLists(res.desired.GroupVersionKind()), Unstored: true}
	content := c.Part(composed, wanted, func(l change.Leaf) bool { return covered(stays, l.Path) })
	if _, ok := stays[admission.PathExternalName]; ok {
		content["metadata"] = ssa.WithExternalName(ssa.Child(content, "metadata"), composed)
	}
	rest := *res
	rest.desired = ssa.Unstructured(content)
	if len(change.Diff(r.after(&rest, admission.Update).Object, d.Rest.Object, true)) > 0 {
		res.notes = append(res.notes, "what was held before cannot be separated from what the last intent causes: all of it is held")
		res.decision = *d.Held
		return
	}
	emitted := ssa.ToStruct(content)
	if res.masked { // the mask of an earlier step
		setPolicies(emitted, parent.PoliciesOf(ssa.Unstructured(ssa.Object(res.want.GetResource()))))
	}
	res.after = d.Rest
	res.rest = &fnv1.Resource{Resource: emitted, ConnectionDetails: res.want.GetConnectionDetails(), Ready: res.want.GetReady()}
}

// covered reports whether a path, or one above it, is one of some.
func covered(paths map[string]string, path string) bool {
	for p := range paths {
		if change.Under(path, p) {
			return true
		}
	}
	return false
}

// holding returns the refusal of what is held of a resource, all or a part; nil for none.
func (res *resource) holding() *admission.Decision {
	switch {
	case !res.decided:
		return nil
	case res.refused():
		return &res.decision
	}
	return res.decision.Held
}
