package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// setGate puts the mask of a managed resource into the state that the allowed
// request requires: a closed gate stays closed and an open one open, an accepted
// change opens it in its own write (KR-08-04).
func (ed *editor) setGate() {
	req, p := ed.req, ed.policies
	if !ed.kind.ManagementPolicies {
		if ed.mode == v1alpha1.ModeEnforce {
			ed.patched = maps.Clone(p.fields)
		}
		return
	}
	if ed.mode != v1alpha1.ModeEnforce {
		ed.leaveUnmasked()
		return
	}
	if identity.IsDeleting(req.Object) {
		ed.keepTerminating()
		return
	}
	if req.OldObject != nil && len(ed.changes) == 0 && slices.Equal(p.incoming, p.stored) {
		ed.recordName()
		return // the stored mask stays, and its annotations are protected
	}
	if !mask.Maskable(p.author) {
		ed.unmask()
		return
	}
	if ed.resumes() || ed.restored() {
		ed.gate = &v1alpha1.Gate{State: v1alpha1.GateClosed, Generation: ed.nextGeneration(), At: approval.Stamp(req.Time),
			Reason: v1alpha1.GateReasonInstalled}
		ed.mask(*ed.gate)
		return
	}
	if ed.paused() {
		ed.setPolicies(p.author)
		return
	}
	if ed.retarget && (p.remembered || ed.observed()) {
		ed.retargetGate()
		return
	}
	if req.OldObject != nil && !p.remembered && !ed.opens() {
		// The gate controller masks an existing object for the first time, at a limited
		// rate; neither the webhook nor the function does.
		ed.setPolicies(p.author)
		return
	}
	gate := mask.ParseGate(ed.stored)
	if ed.opens() {
		next := ed.transition(gate)
		gate, ed.gate = next, &next
	} else {
		ed.recordName()
	}
	ed.mask(gate)
}

// recordName of an external resource that is being created, in the write that names it: the gate controller would write
// it otherwise, and each write is an event of the composite (KR-04-18).
func (ed *editor) recordName() {
	if ed.stored[v1alpha1.AnnotationKeyExternalName] == ed.incoming[v1alpha1.AnnotationKeyExternalName] {
		return // it is no write that names it, as most are not
	}
	if gate, named := gating.Named(mask.ParseGate(ed.stored), parent.ExternalOf(ed.req.Object), ed.req.Object.GetName()); named {
		ed.put(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
	}
}

// leaveUnmasked is for a managed resource in mode log, where nothing is masked
// (KR-08-19). The author's own value is restored where the request brings it, or
// another one: a remembered one would outlive its next change. So it is in a restored
// backup, mask included.
func (ed *editor) leaveUnmasked() {
	p := ed.policies
	if ed.req.OldObject == nil || !slices.Equal(p.incoming, p.stored) || !slices.Equal(p.before, p.author) {
		ed.unmask()
	}
}

// keepTerminating is for a managed resource that is being deleted. Nothing of ours
// removes Delete from it (KR-08-14); a re-apply of the author's value does not add it
// either. Nor does a controller, whose changes of such an object are not decided
// about: a Composition that changed meanwhile would orphan what is to be deleted, or
// delete what is to be left behind.
func (ed *editor) keepTerminating() {
	p := ed.policies
	before, ok := mask.ParseAuthor(identity.Annotation(ed.req.Stored(), v1alpha1.AnnotationKeyManagementPolicies))
	was, is := mask.Gives(p.stored, v1alpha1.VerbDelete), mask.Gives(p.incoming, v1alpha1.VerbDelete)
	if was != is && ed.controllerWrites() || ok && !was && slices.Equal(p.incoming, before) {
		ed.setPolicies(p.stored)
	}
}

// unmask where the author's value leaves nothing to mask.
func (ed *editor) unmask() {
	if ed.policies.remembered {
		ed.set(v1alpha1.AnnotationKeyManagementPolicies, nil)
		ed.set(v1alpha1.AnnotationKeyGate, gating.Lifted(ed.stored[v1alpha1.AnnotationKeyGate], ed.nextGeneration(), ed.req.Time))
	}
	ed.setPolicies(ed.policies.author)
}

// mask the author's policies under a gate.
func (ed *editor) mask(gate v1alpha1.Gate) {
	author := ed.policies.author
	ed.put(v1alpha1.AnnotationKeyManagementPolicies, mask.FormatAuthor(author))
	if ed.gate != nil {
		ed.put(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
		if ed.kind.ReconcileRequests && (gate.State == v1alpha1.GateOpen || ed.retarget) {
			ed.put(v1alpha1.AnnotationKeyReconcileRequestedAt, ed.req.Time.UTC().Format(time.RFC3339Nano))
		}
	}
	ed.setPolicies(gating.MaskedPolicies(author, gate, ed.closeTo(), ed.kind))
}

// setPolicies in spec.managementPolicies. nil, the value of an author who left them out,
// and what the request has already, leave them.
func (ed *editor) setPolicies(value []string) {
	if value != nil && !slices.Equal(value, ed.policies.incoming) {
		ed.masked = value
	}
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
	return len(verbs) == 0 || ed.req.Operation == Create && !slices.Contains(verbs, v1alpha1.VerbCreate)
}

// unopened reports whether the allowed change of a managed resource is about its external
// resource, and stays without effect there, since no allowance opens the gate (KR-06-33).
func (ed *editor) unopened() bool {
	return ed.kind.ManagementPolicies && ed.mode == v1alpha1.ModeEnforce && ed.req.Operation != Delete &&
		mask.Maskable(ed.policies.author) && ed.reaches() && ed.shut()
}

// reaches reports whether the allowed change is one of the external resource.
func (ed *editor) reaches() bool {
	switch v := ed.verdict; {
	case ed.req.Operation == Create:
		return true
	case v.Class == ClassSelf, v.Reason == ReasonNoChange, v.Reason == ReasonBeingDeleted:
		return false
	case v.Class == ClassDrift && v.Resolution != ResolutionApproved && v.Resolution != ResolutionUpgraded:
		return false
	}
	return slices.ContainsFunc(ed.changes, func(c change.Change) bool {
		return !change.Under(c.Path, "spec."+mask.FieldManagementPolicies) && !change.Under(c.Path, "spec.deletionPolicy")
	})
}

// paused reports whether an object that is not masked is paused, or was until this
// write: its author's policies stay (KR-08-03). A creation that may not reach the
// external resource is masked: nothing would close the gate when it goes on.
func (ed *editor) paused() bool {
	req := ed.req
	if ed.policies.remembered || req.OldObject == nil && !ed.opens() {
		return false
	}
	return parent.IsPaused(req.Object) || req.OldObject != nil && parent.IsPaused(req.OldObject)
}

// resumes reports whether the author gives more than Observe again, of an object that
// existed before and that was paused or only observed. Its gate closes in the same
// write: what changed outside meanwhile would be overwritten before the gate controller
// masks the object (KR-13-12). One that its provider never reported on has nothing
// outside yet: its creation goes on. Only who may write the status can change that.
func (ed *editor) resumes() bool {
	p := ed.policies
	if ed.req.OldObject == nil || p.remembered || mask.Maskable(p.before) || ed.opens() {
		return false
	}
	return ed.observed()
}

// observed reports whether the provider ever reported on the stored object.
func (ed *editor) observed() bool {
	_, observed := parent.Sum(ed.req.Whole(), ed.kind.Role).Condition("Ready")
	return observed
}

// retargetGate sets the gate of an object that is pointed at another external resource:
// its provider names what it creates; any other change of it closes the gate, for
// what differs there is not known yet (KR-13-18). What the composite's controller sets
// for an intent while nothing is created yet is a part of the creation.
func (ed *editor) retargetGate() {
	gate := mask.ParseGate(ed.stored)
	creates := gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbCreate) && ed.opens()
	if ed.verdict.Class == ClassSelf || creates && ed.verdict.Class == ClassExpected {
		gate.External = gating.RecordExternal(parent.ExternalOf(ed.req.Object))
		if gate.State != "" {
			ed.put(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
		}
		ed.mask(gate)
		return
	}
	gate = gating.Retarget(gate, parent.ExternalOf(ed.req.OldObject), ed.nextGeneration(), ed.req.Time)
	ed.gate = &gate
	ed.mask(gate)
	ed.warnings.add("the external resource is another one now; the gate stays closed until its provider has reported no difference, " +
		"or the difference is approved, see kubectl get drifts")
}

// transition of the gate by the allowed change.
func (ed *editor) transition(gate v1alpha1.Gate) v1alpha1.Gate {
	verbs := []v1alpha1.Verb{v1alpha1.VerbUpdate}
	if ed.governed() {
		verbs = ed.governedVerbs()
	}
	a := gating.Acceptance{
		Gate: gate, Create: ed.req.Operation == Create, Verbs: verbs, Paths: change.Paths(ed.changes),
		Generation: ed.nextGeneration(), Time: ed.req.Time, CarryPendingDrift: ed.Options.CarryPendingDrift,
	}
	switch {
	case a.Extends(): // by the new spec, and the status that the provider has reported so far
		a.Difference = ed.relevant(map[string]any{"spec": ed.policies.new["spec"], "status": ed.req.Whole().Object["status"]})
	case !a.Create && !a.CarryPendingDrift:
		a.Difference = ed.relevant(ed.req.Whole().Object)
	}
	represents := gating.RecordExternal(parent.ExternalOf(ed.req.Current()))
	if !a.Create && gate.External != nil && (represents == nil || *represents != *gate.External) {
		ed.warnings.add("the external resource is another one than before; the gate stays closed until its provider has reported no difference, " +
			"or the difference is approved, see kubectl get drifts")
		return gating.Retarget(gate, "", a.Generation, a.Time)
	}
	next, pending := a.Transition()
	if next.External = gate.External; next.External == nil {
		next.External = represents
	}
	if len(pending) > 0 {
		ed.warnings.add("the external resource already differs (" + change.Summary(pending, 5) +
			"); the gate stays closed until that difference is approved or gone, see kubectl get drifts")
	}
	return next
}
