package settling

import (
	"encoding/json"
	"slices"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Record is one change that the composition function holds of a composite, as a composed
// resource has it (KR-09-25).
type Record struct {
	// Child with its name in the Composition. One that is to be created has no UID.
	Child v1alpha1.ObjectReference
	// On is the composed resource that has the record.
	On parent.Ref
	// Reason of the refusal.
	Reason string
	// Operation as in a Drift.
	Operation string
	// ID of the difference, and its digest; empty where none was computed, as while the composite is frozen.
	ID, Digest string
	// Lacks is what the votes for it lack, as a clause.
	Lacks string
	// Causes of a change that reverts an edit by another user; nil where the revision of the Composition is its cause.
	Causes []v1alpha1.HopCause
	// Difference of an update. Not every field of it has values.
	Difference []v1alpha1.FieldDifference
}

// RecordsOn returns the records on a composed resource of a composite: of its own change, and of
// creations. There are no records on an object that does not name the composite as its controller. full
// reports whether there may be creations that are not listed. What does not parse is not a record: the
// function writes it again.
func RecordsOn(c, p *parent.State) (out []Record, full bool) {
	if c.Parent.UID == "" || c.Parent.UID != p.UID {
		return nil, false
	}
	resource := c.Annotations[v1alpha1.AnnotationKeyCompositionResourceName]
	var h v1alpha1.Held
	if value := c.Annotations[v1alpha1.AnnotationKeyHeld]; value != "" && json.Unmarshal([]byte(value), &h) == nil {
		apiVersion, kind := c.ToAPIVersionAndKind()
		out = append(out, Record{
			Child: v1alpha1.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: c.Namespace, Name: c.Name, UID: c.UID,
				Generation: c.Generation, Resource: resource},
			On: c.Ref, Reason: h.Reason, Operation: h.Operation, ID: h.ID, Digest: h.Digest, Lacks: h.Lacks, Difference: differenceOf(h),
			Causes: causesOf(h),
		})
	}
	var creations []v1alpha1.HeldCreation
	if value := c.Annotations[v1alpha1.AnnotationKeyHeldCreations]; value == "" || json.Unmarshal([]byte(value), &creations) != nil {
		return out, false
	}
	full = len(creations) >= v1alpha1.MaxHeldCreations
	for _, h := range creations[:min(len(creations), v1alpha1.MaxHeldCreations)] {
		out = append(out, Record{
			Child: v1alpha1.ObjectReference{APIVersion: h.APIVersion, Kind: h.Kind, Namespace: h.Namespace, Name: h.Name, Resource: h.Resource},
			On:    c.Ref, Reason: h.Reason, Operation: "CREATE", ID: h.ID, Digest: h.Digest, Lacks: h.Lacks,
		})
	}
	return out, full
}

// causesOf returns the causes of a record, as many as a hop has.
func causesOf(h v1alpha1.Held) []v1alpha1.HopCause {
	return h.Causes[:min(len(h.Causes), v1alpha1.MaxHopCauses)]
}

// differenceOf returns the difference of a record: its paths, with the values of those that have them.
func differenceOf(h v1alpha1.Held) []v1alpha1.FieldDifference {
	out := slices.Clone(h.Difference[:min(len(h.Difference), v1alpha1.MaxHeldPaths)])
	for _, p := range h.Paths[:min(len(h.Paths), v1alpha1.MaxHeldPaths)] {
		if !slices.ContainsFunc(out, func(f v1alpha1.FieldDifference) bool { return f.Path == p }) {
			out = append(out, v1alpha1.FieldDifference{Path: p})
		}
	}
	return out
}

// Released returns why the composition function no longer holds a drift, as a clause; ""
// while it does, or that is unknown. p is nil for a parent that does not exist, and child
// for a child. records are those of all composed resources; complete is whether all of them
// could be read, and list every creation.
func Released(d *v1alpha1.Drift, p, child *parent.State, records []Record, complete bool) string {
	switch {
	case p == nil:
		return "the parent is gone"
	case FunctionHolds(p) && (!complete || slices.ContainsFunc(records, func(r Record) bool { return r.is(d) })):
		return ""
	case claimed(d, p) || landed(d, child) || deletedByUse(d, p, child):
		return WhyApproved
	}
	if intent, _ := trace.Intent(p); d.Spec.Intent > 0 && intent.Generation > d.Spec.Intent {
		return "the parent has a new intent"
	}
	if child == nil && d.Spec.Operation != "CREATE" {
		return "the child was deleted"
	}
	return "it is no longer attempted"
}

// is reports whether a record has a drift. While its composite is frozen it has no id.
func (r Record) is(d *v1alpha1.Drift) bool {
	c := d.Spec.Child
	same := r.Child.Kind == c.Kind && r.Child.Name == c.Name && r.Child.Namespace == c.Namespace && r.Child.Resource == c.Resource
	return same && r.Operation == d.Spec.Operation && (r.ID == d.Spec.ID || r.ID == "")
}
