package fn

import (
	"encoding/json"
	"maps"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/outcome"
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
	value := res.observed.Annotation(v1alpha1.AnnotationKeyHeld)
	if value == "" {
		return nil
	}
	var h v1alpha1.Held
	if json.Unmarshal([]byte(value), &h) != nil || h.Operation != string(op) {
		return nil
	}
	if len(h.Drift) == 0 && h.Reason == string(outcome.ReasonDrift) { // of an earlier release, which recorded no values
		return &admission.Held{Whole: true}
	}
	return held(h.HeldDrift)
}

// held returns what a record of held changes contains; nil for an empty record.
func held(d v1alpha1.HeldDrift) *admission.Held { return admission.HeldOf(d) }

// creationBefore returns what was held before of a resource that does not exist, as before does for
// others. A list that is full may lack it, and where nothing is composed there is no list: the
// condition alone shows that something is held, and any creation counts as held then.
func (r *run) creationBefore(res *resource) *admission.Held {
	every := len(r.observed) == 0 && r.holdsAll()
	for _, o := range r.observed {
		list := offline.ParseCreations(o.Annotation(v1alpha1.AnnotationKeyHeldCreations))
		every = every || len(list) >= v1alpha1.MaxHeldCreations
		for _, c := range list {
			if c.Resource != res.name || c.Kind != res.desired.GetKind() {
				continue
			}
			if len(c.Drift) == 0 && c.Reason == string(outcome.ReasonDrift) {
				return &admission.Held{Whole: true}
			}
			return held(c.HeldDrift)
		}
	}
	if every {
		return &admission.Held{Whole: true}
	}
	return nil
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
		content["metadata"] = withExternalName(ssa.Child(content, "metadata"), composed)
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

// withExternalName returns metadata with the external name of another object.
func withExternalName(metadata, from map[string]any) map[string]any {
	out := maps.Clone(metadata)
	annotations := maps.Clone(ssa.Child(metadata, "annotations"))
	delete(annotations, v1alpha1.AnnotationKeyExternalName)
	if name := ssa.AnnotationOf(from, v1alpha1.AnnotationKeyExternalName); name != "" {
		annotations[v1alpha1.AnnotationKeyExternalName] = name
	}
	if out != nil {
		out["annotations"] = annotations
	}
	return out
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
