package gating

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// InWrite is an allowed write of a managed resource: its gate opens, or stays closed, in the write itself (KR-08-04). Managed
// decides about it at all other times.
type InWrite struct {
	Kind identity.Kind
	Mode v1alpha1.Mode
	// Object after the write, and Old before it, which may lack its status; Old is nil for a creation.
	Object, Old *unstructured.Unstructured
	// Request is read for Old with its status.
	Request interface {
		Whole() *unstructured.Unstructured
	}
	// Incoming and Stored annotations of them.
	Incoming, Stored map[string]string
	// Author's managementPolicies after the write, and Before it.
	Author, Before []string
	// IncomingPolicies and StoredPolicies are the field's values, with the mask.
	IncomingPolicies, StoredPolicies []string
	// Remembered: the stored object remembers an author's value.
	Remembered bool
	// Changes of the desired state.
	Changes []change.Change
	// Retargeted: the object is pointed at another external resource.
	Retargeted bool
	// Opens: the change may reach the external resource, by these Verbs.
	Opens bool
	Verbs []v1alpha1.Verb
	// Destroys as in Gate.
	Destroys bool
	// ByController: a controller of the object or of its parent writes; it is read of an object that is being deleted. BySelf: the
	// object's own controller writes. Expected: an intent explains the change.
	ByController, BySelf, Expected bool
	// Difference of an object from its external resource that no rule ignores; it is called where the change Opens.
	Difference func(object map[string]any) []change.Change
	// CloseTo and CarryPendingDrift as in Managed.
	CloseTo           []v1alpha1.Verb
	CarryPendingDrift bool
	// Generation after the write.
	Generation int64
	Now        time.Time
}

// Edits of an object within the write that is decided about.
type Edits struct {
	// Policies to set in spec.managementPolicies; nil leaves them.
	Policies []string
	// Annotations to set or remove, in the order of their number; without a Key for none.
	Annotations [3]Annotation
	// Gate transition of the write; nil for none.
	Gate     *v1alpha1.Gate
	Warnings []string
}

// Annotation to set, or to Remove.
type Annotation struct {
	Key, Value string
	Remove     bool
}

// Edits returns the edits of the managed resource.
func (w *InWrite) Edits() Edits {
	switch {
	case w.Mode != v1alpha1.ModeEnforce:
		return w.unmasked()
	case identity.IsDeleting(w.Object):
		return w.terminating()
	case w.Old != nil && len(w.Changes) == 0 && slices.Equal(w.IncomingPolicies, w.StoredPolicies):
		return w.named(Edits{}) // the stored mask stays, and its annotations are protected
	case !mask.Maskable(w.Author):
		return w.unmask()
	}
	return w.maskable()
}

// maskable returns the edits of a managed resource whose author gives something to mask.
func (w *InWrite) maskable() Edits {
	switch {
	case w.resumes() || w.Restored():
		gate := v1alpha1.Gate{State: v1alpha1.GateClosed, Generation: w.Generation, At: approval.Stamp(w.Now), Reason: v1alpha1.GateReasonInstalled}
		return w.mask(gate, true)
	case w.paused():
		return w.with(w.Author)
	case w.Retargeted && (w.Remembered || w.observed()):
		return w.retarget()
	case w.Old != nil && !w.Remembered && !w.Opens:
		// The gate controller masks an existing object for the first time, at a limited
		// rate; neither the webhook nor the function does.
		return w.with(w.Author)
	case w.Opens:
		gate, warnings := w.transition(mask.ParseGate(w.Stored))
		e := w.mask(gate, true)
		e.Warnings = warnings
		return e
	}
	return w.named(w.mask(mask.ParseGate(w.Stored), false))
}

// with returns edits that set spec.managementPolicies. They leave the field as it is for nil, the value
// of an author who did not set it, and for the value that the request has already.
func (w *InWrite) with(policies []string) Edits {
	if policies == nil || slices.Equal(policies, w.IncomingPolicies) {
		return Edits{}
	}
	return Edits{Policies: policies}
}

// set adds an annotation to the edits.
func (e *Edits) set(key, value string) { e.add(Annotation{Key: key, Value: value}) }

// remove adds the removal of an annotation to the edits.
func (e *Edits) remove(key string) { e.add(Annotation{Key: key, Remove: true}) }

func (e *Edits) add(a Annotation) {
	i := slices.IndexFunc(e.Annotations[:], func(have Annotation) bool { return have.Key == "" || have.Key == a.Key })
	e.Annotations[i] = a
}

// named records an external resource that is being created, in the write that names it: the gate controller would write it
// otherwise, and each write is an event of the composite (KR-04-18).
func (w *InWrite) named(e Edits) Edits {
	if w.Stored[v1alpha1.AnnotationKeyExternalName] == w.Incoming[v1alpha1.AnnotationKeyExternalName] {
		return e // most writes name none
	}
	if gate, named := Named(mask.ParseGate(w.Stored), parent.ExternalOf(w.Object), w.Object.GetName()); named {
		e.set(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
	}
	return e
}

// unmasked returns the edits of a managed resource in mode log, where nothing is masked (KR-08-19).
// The author's own value is restored where the request brings it, or another one: a remembered one
// would outlive its next change. So it is in a restored backup, mask included.
func (w *InWrite) unmasked() Edits {
	if w.Old == nil || !slices.Equal(w.IncomingPolicies, w.StoredPolicies) || !slices.Equal(w.Before, w.Author) {
		return w.unmask()
	}
	return Edits{}
}

// terminating returns the edits of a managed resource that is being deleted. Kausality never removes Delete from it
// (KR-08-14), and a re-apply of the author's value does not add it. Nor does a controller add it, since its changes of
// such an object are not decided about. Otherwise a Composition that changed meanwhile would orphan an external
// resource that is to be deleted, or delete one that is to be left behind.
func (w *InWrite) terminating() Edits {
	stored := w.Stored
	if w.Old == nil {
		stored = w.Incoming
	}
	before, ok := mask.ParseAuthor(stored[v1alpha1.AnnotationKeyManagementPolicies])
	was, is := mask.Gives(w.StoredPolicies, v1alpha1.VerbDelete), mask.Gives(w.IncomingPolicies, v1alpha1.VerbDelete)
	if was != is && w.ByController || ok && !was && mask.ReApplied(before, w.StoredPolicies, w.IncomingPolicies) {
		return w.with(w.StoredPolicies)
	}
	return Edits{}
}

// unmask removes the mask where the author's value leaves nothing to mask.
func (w *InWrite) unmask() Edits {
	e := w.with(w.Author)
	if w.Remembered {
		e.remove(v1alpha1.AnnotationKeyManagementPolicies)
		if rest := Lifted(w.Stored[v1alpha1.AnnotationKeyGate], w.Generation, w.Now); rest != nil {
			e.set(v1alpha1.AnnotationKeyGate, *rest)
		} else {
			e.remove(v1alpha1.AnnotationKeyGate)
		}
	}
	return e
}

// mask masks the author's policies under a gate; moved: the write makes a transition to it.
func (w *InWrite) mask(gate v1alpha1.Gate, moved bool) Edits {
	e := w.with(MaskedPolicies(w.Author, gate, w.CloseTo, w.Kind))
	e.set(v1alpha1.AnnotationKeyManagementPolicies, mask.FormatAuthor(w.Author))
	if !moved {
		return e
	}
	gate.Intent = 0
	if w.Old != nil && len(w.Changes) == 0 {
		gate.Intent = trace.Kept(parent.Sum(w.Old, w.Kind.Role), parent.Sum(w.Object, w.Kind.Role), w.Generation)
	}
	e.set(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
	next := gate
	e.Gate = &next
	if w.Kind.ReconcileRequests && (gate.State == v1alpha1.GateOpen || w.Retargeted) {
		e.set(v1alpha1.AnnotationKeyReconcileRequestedAt, w.Now.UTC().Format(time.RFC3339Nano))
	}
	return e
}

// paused reports whether an object that is not masked is paused, or was until this
// write: its author's policies stay (KR-08-03). A creation that may not reach the
// external resource is masked: nothing would close the gate when it goes on.
func (w *InWrite) paused() bool {
	if w.Remembered || w.Old == nil && !w.Opens {
		return false
	}
	return parent.IsPaused(w.Object) || w.Old != nil && parent.IsPaused(w.Old)
}

// resumes reports whether the author gives more than Observe again, of an object that
// existed before and that was paused or only observed. Its gate closes in the same
// write: what changed outside meanwhile would be overwritten before the gate controller
// masks the object (KR-13-12). One that its provider never reported on has nothing
// outside yet: its creation goes on.
func (w *InWrite) resumes() bool {
	return w.Old != nil && !w.Remembered && !mask.Maskable(w.Before) && !w.Opens && w.observed()
}

// observed reports whether the provider ever reported on the stored object, or created what it represents. Who may write the status can
// remove the one, but not the other.
func (w *InWrite) observed() bool {
	if w.Stored["crossplane.io/external-create-succeeded"] != "" {
		return true
	}
	_, observed := parent.Outline(w.Request.Whole(), parent.RoleManaged).Condition("Ready")
	return observed
}

// Restored reports whether a managed resource is created from a backup of one whose external resource was created before. Its
// gate is closed at once: what changed outside since the backup would be overwritten (KR-13-58). A creation that was
// under way goes on.
func (w *InWrite) Restored() bool {
	if w.Old != nil || w.Incoming[v1alpha1.AnnotationKeyGate] == "" {
		return false
	}
	_, masked := mask.ParseAuthor(w.Incoming[v1alpha1.AnnotationKeyManagementPolicies])
	gate := mask.ParseGate(w.Incoming)
	return masked && gate.State != "" && (gate.State != v1alpha1.GateOpen || !slices.Contains(gate.Verbs, v1alpha1.VerbCreate))
}

// retarget sets the gate of an object that is pointed at another external resource: its provider
// names what it creates. Any other change of it closes the gate, since the difference there is not
// known yet (KR-13-18). What the composite's controller sets for an intent while nothing is created
// yet is a part of the creation.
func (w *InWrite) retarget() Edits {
	gate := mask.ParseGate(w.Stored)
	creates := gate.State == v1alpha1.GateOpen && slices.Contains(gate.Verbs, v1alpha1.VerbCreate) && w.Opens
	if w.BySelf || creates && w.Expected {
		gate.External = RecordExternal(parent.ExternalOf(w.Object))
		e := w.mask(gate, false)
		if gate.State != "" {
			e.set(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
		}
		return e
	}
	e := w.mask(Retarget(gate, parent.ExternalOf(w.Old), w.Generation, w.Now), true)
	e.Warnings = []string{"the external resource is another one now; the gate stays closed until its provider has reported no difference, " +
		"or the difference is approved, see kubectl get drifts"}
	return e
}

// transition returns the gate after the allowed change, and warnings.
func (w *InWrite) transition(gate v1alpha1.Gate) (next v1alpha1.Gate, warnings []string) {
	a := Acceptance{
		Gate: gate, Create: w.Old == nil, Verbs: w.Verbs, Destroys: w.Destroys, Paths: change.Paths(w.Changes),
		Generation: w.Generation, Time: w.Now, CarryPendingDrift: w.CarryPendingDrift,
	}
	if w.Old != nil {
		a.Paused = parent.IsPaused(w.Object) || parent.IsPaused(w.Old) || !mask.Gives(w.Before, v1alpha1.VerbObserve) || parent.IsStopped(w.Request.Whole())
	}
	switch {
	case a.Extends(): // by the new spec, and the status that the provider has reported so far
		a.Difference = w.Difference(map[string]any{"spec": w.Object.Object["spec"], "status": w.Request.Whole().Object["status"]})
	case !a.Create && !a.CarryPendingDrift:
		a.Difference = w.Difference(w.Request.Whole().Object)
	}
	represents := RecordExternal(parent.ExternalOf(w.Object))
	if !a.Create && gate.External != nil && (represents == nil || *represents != *gate.External) {
		return Retarget(gate, "", a.Generation, a.Time), []string{"the external resource is another one than before; the gate stays closed until " +
			"its provider has reported no difference, or the difference is approved, see kubectl get drifts"}
	}
	next, pending := a.Transition()
	if next.External = gate.External; next.External == nil {
		next.External = represents
	}
	if len(pending) > 0 {
		warnings = []string{"the external resource already differs (" + change.Summary(pending, maxPending) +
			"); the gate stays closed until that difference is approved or gone, see kubectl get drifts"}
	}
	if next.Reason == v1alpha1.GateReasonPaused {
		warnings = []string{"the managed resource is paused; the gate stays closed until its provider has observed the external resource again"}
	}
	return next, warnings
}

// maxPending is the number of fields of a pending difference that a warning names.
const maxPending = 5
