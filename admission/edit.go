package admission

import (
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/actor"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/annotation"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/authorize"
	"github.com/kausality-io/function-kausality/admission/keys"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// editor of the object of an allowed request: it protects annotations, writes the trace, keeps the
// claims and sets the gate. It reads the evaluation, and writes its own edits.
type editor struct {
	*evaluation
	verdict *outcome.Verdict
	// incoming and stored annotations; the same where the write keeps them.
	incoming, stored map[string]string

	// annotations to set on the object; nil values remove. nil for none.
	annotations map[string]*string
	trace       trace.Trace
	// changesUserAnnotation as in Decision.
	changesUserAnnotation bool
	// maskMoves: the mask alone increments the generation.
	maskMoves bool
	// masked policies, patched fields by their JSON pointer, and the transition of the gate; nil for none.
	masked  []string
	patched map[string]any
	gate    *v1alpha1.Gate
	// externalVerbs that the change opens the gate for, and the allowances that it travels with for that.
	externalVerbs []string
	external      allowance.Entries
}

// editObject adds the edits of the object to the Decision about an allowed request. It returns a refusal
// where the object cannot be edited (KR-02-14).
func editObject(ev *evaluation, v *outcome.Verdict, d Decision) Decision {
	if ev.Req.Object == nil || v.Reason == outcome.ReasonComponent {
		return d
	}
	warned := len(ev.warnings)
	ed := ev.editor(v)
	r := ed.run()
	if r == nil && ed.movesByMask() {
		ev.warnings = ev.warnings[:warned]
		ed = ev.editor(v)
		ed.maskMoves = true
		r = ed.run()
	}
	if r != nil {
		refused := outcome.Refuse(ev.Facts, v.Class, *r)
		refused.Mode, refused.Resolution, refused.Report, refused.Suggestion = v.Mode, v.Resolution, v.Report, v.Suggestion
		refused.Digest, refused.Logged = v.Digest, v.Logged
		return decisionOf(ev, refused)
	}
	d.Annotations, d.ChangesUserAnnotation, d.Trace = ed.annotations, ed.changesUserAnnotation, ed.trace
	d.ManagementPolicies, d.Fields, d.Gate, d.Unopened = ed.masked, ed.patched, ed.gate, ed.unopened()
	if ev.Req.Subresource != "" {
		d.Later, d.Annotations = d.Annotations, nil
	}
	return d
}

// editor returns an editor of the object of an allowed request.
func (ev *evaluation) editor(v *outcome.Verdict) editor {
	ed := editor{evaluation: ev, verdict: v, incoming: ev.Req.Object.GetAnnotations()}
	switch old := ev.Req.OldObject; {
	case old == nil:
	case ev.KeepsAnnotations:
		ed.stored = ed.incoming
	default:
		ed.stored = old.GetAnnotations()
	}
	return ed
}

// movesByMask reports whether the mask increments the generation of a write that does not
// otherwise: what the first run wrote then names an earlier generation.
func (ed *editor) movesByMask() bool {
	if !ed.NamesAlone() || ed.maskMoves {
		return false
	}
	after := ed.Desired.Incoming
	if ed.masked != nil {
		after = ed.masked
	}
	return !slices.Equal(after, ed.Desired.Stored)
}

// nextGeneration returns the generation after the write: a change of the external name alone leaves
// it, unless it closes the gate.
func (ed *editor) nextGeneration() int64 {
	if ed.NamesAlone() && !ed.maskMoves {
		return ed.Req.OldObject.GetGeneration()
	}
	return ed.Req.NextGeneration()
}

// run makes the edits, and returns a refusal where one is not possible. A change through /scale cannot
// carry annotations: its trace and allowances are written later (KR-01-09). Other subresources carry
// none.
func (ed *editor) run() *outcome.Refusal {
	if ed.Req.Subresource != "" && ed.Req.Subresource != SubresourceScale {
		return nil
	}
	whole := ed.Req.Subresource == ""
	if whole {
		if !ed.KeepsAnnotations {
			ed.protect()
			keepResourceName(ed)
		}
		ed.discardGone()
		if r := ed.validate(); r != nil {
			return r
		}
	}
	if r := ed.writeTrace(); r != nil {
		return r
	}
	if whole {
		ed.keepApprovals()
	}
	if r := ed.writeAllowances(); r != nil || !whole {
		return r
	}
	ed.writeFingerprint()
	ed.writeGate()
	writeCause(ed, reachesNow(ed))
	ed.keepParent()
	ed.warnUnknown()
	return nil
}

// setField sets a field of the object, by its JSON pointer.
func (ed *editor) setField(pointer string, value any) {
	if ed.patched == nil {
		ed.patched = map[string]any{}
	}
	ed.patched[pointer] = value
}

// set sets one annotation to the value; nil removes it.
func (ed *editor) set(key string, value *string) {
	if value != nil {
		ed.put(key, *value)
	} else if _, ok := ed.incoming[key]; ok {
		ed.change(key, nil)
	} else {
		delete(ed.annotations, key)
	}
}

// put writes a value into one annotation.
func (ed *editor) put(key, value string) {
	if have, ok := ed.incoming[key]; ok && value == have {
		delete(ed.annotations, key)
		return
	}
	changed := value // a copy, so that an unchanged value is not allocated
	ed.change(key, &changed)
}

// change records the change of one annotation on top of the incoming ones; nil removes it.
func (ed *editor) change(key string, value *string) {
	if ed.annotations == nil {
		ed.annotations = map[string]*string{}
	}
	ed.annotations[key] = value
}

// after returns the annotations that the write leaves. They are not modified.
func (ed *editor) after() map[string]string {
	if len(ed.annotations) == 0 {
		return ed.incoming
	}
	return annotation.Apply(ed.incoming, ed.annotations)
}

// controllerWrites reports whether the writer is a controller of the object or of
// its parent, whose copies of user annotations are ignored (KR-02-10).
func (ed *editor) controllerWrites() bool {
	return ed.actor().Controller || ed.verdict.Class == outcome.ClassSelf || subject.IsComposedApply(ed.Manager) ||
		ed.verdict.Class == outcome.ClassNone && ed.Req.Operation == Update && actor.IsAnyController(ed.ctx, ed.evaluation.Facts)
}

// protect restores or removes the annotations of Kausality's domain that the writer may not change
// (KR-02-09, KR-02-10).
func (ed *editor) protect() {
	for key := range ed.incoming {
		if v1alpha1.IsKausality(key) {
			ed.protectKey(key)
		}
	}
	for key := range ed.stored {
		if _, ok := ed.incoming[key]; !ok && v1alpha1.IsKausality(key) {
			ed.protectKey(key)
		}
	}
}

// protectKey protects one annotation: it is kept, restored or removed. That depends on its key, on the
// writer, and on whether the object is new (KR-02-12).
func (ed *editor) protectKey(key string) {
	old, was := ed.stored[key]
	now, is := ed.incoming[key]
	switch {
	case was == is && old == now, ed.composed(key):
		return
	case v1alpha1.IsUser(key) && !ed.controllerWrites():
		if is && keys.Meaningless(key) {
			ed.set(key, nil)
		}
		return
	}
	if !was {
		ed.set(key, nil)
		return
	}
	ed.put(key, old)
}

// byComposer reports whether Crossplane writes what a Composition has: under the field
// manager of its parent, and identified by it (KR-13-04).
func (ev *evaluation) byComposer() bool {
	if ev.Req.Actor == ActorParentController {
		return true
	}
	if !subject.IsComposedApply(ev.Manager) || !ev.HasParent {
		return false
	}
	found := ev.lookUp()
	return found.view != nil && found.view.actor.Composer
}

// composed reports whether an annotation is accepted from a Composition: mode,
// deletion, trace labels, and what the composition function holds and remembers
// (KR-02-11).
func (ed *editor) composed(key string) bool {
	if !ed.byComposer() {
		return false
	}
	return functionKeys[key] || v1alpha1.IsComposed(key)
}

// validate refuses a write that leaves user annotations that do not parse
// (KR-02-02), or that the user may not make. A controller's copy of one is
// reverted instead.
func (ed *editor) validate() *outcome.Refusal {
	if ed.KeepsAnnotations {
		return ed.authorize(nil)
	}
	written, removed := approval.Changed(ed.incoming, ed.stored, ed.annotations)
	for _, key := range written {
		if err := approval.Validate(key, ed.incoming[key]); err != nil {
			return &outcome.Refusal{Code: outcome.CodeComposed, Reason: outcome.ReasonInvalidAnnotation,
				Why: fmt.Sprintf("annotation %s does not parse: %v", key, err), Next: "Nothing was changed; fix the value and try again."}
		}
	}
	if slices.Contains(written, v1alpha1.AnnotationKeyApprovals) {
		if r := authorize.CheckVerbs(ed.incoming, ed.stored, ed.warned()); r != nil {
			return r
		}
	}
	if slices.ContainsFunc(written, v1alpha1.HoldsApprovals) {
		if r := ed.checkVotes(); r != nil {
			return r
		}
	}
	changed := slices.Concat(written, removed)
	ed.changesUserAnnotation = slices.ContainsFunc(changed, v1alpha1.NeedsApproverVerb)
	return ed.authorize(changed)
}

// keepApprovals brings the claims of a holder of approvals in step.
func (ed *editor) keepApprovals() {
	if !approval.Holds(ed.incoming) && (ed.KeepsAnnotations || !approval.Holds(ed.stored)) {
		return
	}
	after := ed.after()
	if !approval.Holds(after) {
		return
	}
	generation, intent := ed.generations(after)
	for k, v := range approval.Admit(after, generation, intent, ed.Req.Time, approve.Known(ed.ctx, ed.evaluation.Facts), ed.ballot()) {
		ed.set(k, v)
	}
}

// generations returns two generations of the object after the write: its own, and that of its last
// intent.
func (ed *editor) generations(after map[string]string) (generation, intent int64) {
	if len(ed.Changes) > 0 || ed.Req.OldObject == nil {
		generation = ed.nextGeneration()
	} else {
		generation = ed.Req.OldObject.GetGeneration()
	}
	if own := trace.Of(after).Own(); own != nil {
		return generation, own.Generation
	}
	s := parent.Sum(ed.Req.Whole(), ed.Kind.Role)
	hop, _ := trace.Intent(s)
	return generation, hop.Generation
}

// functionKeys are the annotations that the composition function stamps, and that
// arrive by the same apply as those of a Composition.
var functionKeys = map[string]bool{
	v1alpha1.AnnotationKeyHeld: true, v1alpha1.AnnotationKeyHeldCreations: true,
	v1alpha1.AnnotationKeySettledFields: true, v1alpha1.AnnotationKeySettledIntent: true, v1alpha1.AnnotationKeyApplied: true,
}
