package admission

import (
	"maps"
	"slices"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// openedBy are the verbs that a change opens the gate for where no policy governs it. They are not modified.
var openedBy = []v1alpha1.Verb{v1alpha1.VerbUpdate}

// writeGate puts the mask of a managed resource into the state that the allowed request requires (KR-08-04), and keeps that of an
// object of an external system.
func (ed *editor) writeGate() {
	req, p := ed.Req, ed.Desired
	if !ed.Kind.ManagementPolicies {
		if ed.Mode == v1alpha1.ModeEnforce {
			ed.patched = maps.Clone(p.Fields)
		}
		return
	}
	w := gating.InWrite{
		Kind: ed.Kind, Mode: ed.Mode, Object: req.Object, Old: req.OldObject, Request: req, Incoming: ed.incoming, Stored: ed.stored,
		Author: p.Author, Before: p.Before, IncomingPolicies: p.Incoming, StoredPolicies: p.Stored, Remembered: p.Remembered,
		Changes: ed.Changes, Retargeted: ed.Retarget, Opens: ed.opens(),
		ByController: identity.IsDeleting(req.Object) && ed.controllerWrites(),
		BySelf:       ed.verdict.Class == outcome.ClassSelf, Expected: ed.verdict.Class == outcome.ClassExpected,
		CloseTo: ed.CloseTo(), CarryPendingDrift: ed.Options.CarryPendingDrift,
		Generation: ed.nextGeneration(), Now: req.Time,
	}
	if w.Opens {
		w.Difference, w.Verbs = ed.Relevant, openedBy
		if ed.governed() {
			w.Verbs, w.Destroys = gating.VerbsOfRun(req.Kind.GroupKind(), ed.governedVerbs())
		}
	}
	edits := w.Edits()
	for _, a := range edits.Annotations {
		switch {
		case a.Remove:
			ed.set(a.Key, nil)
		case a.Key != "":
			ed.put(a.Key, a.Value)
		}
	}
	ed.masked, ed.gate = edits.Policies, edits.Gate
	ed.warnings.Add(edits.Warnings...)
}

// opens reports whether the allowed change may reach the external resource: it was
// requested or approved, and it is about the resource.
func (ed *editor) opens() bool { return ed.reaches() && !ed.shut() }

// shut reports whether policies alone open the gate, and none opens it for this change.
func (ed *editor) shut() bool {
	if !ed.governed() {
		return false
	}
	verbs := ed.governedVerbs()
	return len(verbs) == 0 || ed.Req.Operation == Create && !slices.Contains(verbs, v1alpha1.VerbCreate)
}

// unopened reports whether the allowed change of a managed resource is about its external
// resource, and stays without effect there, since no allowance opens the gate (KR-06-33).
func (ed *editor) unopened() bool {
	return ed.Kind.ManagementPolicies && ed.Mode == v1alpha1.ModeEnforce && ed.Req.Operation != Delete &&
		mask.Maskable(ed.Desired.Author) && ed.reaches() && ed.shut()
}

// reaches reports whether the allowed change is one of the external resource.
func (ed *editor) reaches() bool {
	switch v := ed.verdict; {
	case ed.Req.Operation == Create:
		return true
	case v.Class == outcome.ClassSelf, v.Reason == outcome.ReasonNoChange, v.Reason == outcome.ReasonBeingDeleted:
		return false
	case v.Class == outcome.ClassDrift && v.Resolution != outcome.ResolutionApproved && v.Resolution != outcome.ResolutionUpgraded:
		return false
	}
	return slices.ContainsFunc(ed.Changes, func(c change.Change) bool {
		return !change.Under(c.Path, "spec."+mask.FieldManagementPolicies) && !change.Under(c.Path, "spec.deletionPolicy")
	})
}
