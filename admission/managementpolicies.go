package admission

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/admission/gating"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// policies of an MR in a request: what its author wants, apart from the mask
// that is stored, and the objects with the author's value put back, so that the
// mask is no change in anybody's eyes.
type policies struct {
	// stored and incoming values of spec.managementPolicies; nil for none.
	stored, incoming []string
	// before and author: the author's value before and after the request.
	before, author []string
	// remembered: the stored object remembers an author's value.
	remembered bool

	// old and new object, nil for none; their parts are those of the request.
	old, new map[string]any
	// fields to set on an object of an external system, by JSON pointer: the mask
	// that a write of the author's value would take away.
	fields map[string]any
}

func readPolicies(req *Request, kind identity.Kind, manager string, closeTo []v1alpha1.Verb) policies {
	p := policies{old: content(req.OldObject), new: content(req.Object)}
	if !kind.ManagementPolicies {
		p.remask(req)
		return p
	}
	if req.OldObject != nil {
		p.stored = mask.PoliciesOf(req.OldObject)
		p.before, p.remembered = mask.ParseAuthor(annotation(req.OldObject, v1alpha1.AnnotationKeyManagementPolicies))
		if !p.remembered {
			p.before = p.stored
		}
	}
	if req.Object == nil {
		p.old = withPolicies(p.old, p.before)
		p.author = p.before
		return p
	}
	p.incoming = mask.PoliciesOf(req.Object)
	p.author = p.incoming
	again, reinvoked := reinvokedAuthor(req, kind, closeTo, p.incoming)
	behind, composed := composedAuthor(req, manager, p)
	switch {
	case reinvoked:
		p.author = again
	case composed:
		p.author = behind
	case req.OldObject != nil && p.remembered && slices.Equal(p.incoming, p.stored):
		p.author = p.before
	case req.OldObject == nil:
		// A restored backup brings the author's value along with the mask.
		if a, ok := mask.ParseAuthor(annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies)); ok {
			p.author = a
		}
	}
	if req.OldObject != nil && slices.Equal(p.before, p.author) && slices.Equal(p.stored, p.incoming) {
		return p // no difference either way
	}
	p.old, p.new = withPolicies(p.old, p.before), withPolicies(p.new, p.author)
	return p
}

// composedAuthor is the author's managementPolicies behind the mask that the
// composition function composes (gate: Managed). What it composes was worked out on
// an MR that may have moved on since: its record of the gate or of the author, another
// than the stored one, tells its mask from what an author writes. What it says of the
// author counts where it announces a change, by the hop that it stamps; else it
// repeats what it saw.
func composedAuthor(req *Request, manager string, p policies) ([]string, bool) {
	if req.OldObject == nil || isDeleting(req.Object) || !subject.IsComposedApply(manager) ||
		sameAnnotation(req, v1alpha1.AnnotationKeyGate) && sameAnnotation(req, v1alpha1.AnnotationKeyManagementPolicies) {
		return nil, false
	}
	author, ok := mask.ParseAuthor(annotation(req.Object, v1alpha1.AnnotationKeyManagementPolicies))
	if !ok || !mask.Masks(p.incoming, author) {
		return nil, false
	}
	if own := trace.Of(req.Object.GetAnnotations()).Own(); own != nil && own.Generation == req.nextGeneration() {
		return author, true
	}
	return p.before, true
}

// remask an object of an external system, so that the author's value written
// again is no change in anybody's eyes.
func (p *policies) remask(req *Request) {
	if req.Object == nil || req.OldObject == nil || isDeleting(req.Object) {
		return
	}
	path := external.MaskPath(req.Object.GroupVersionKind().GroupKind())
	if masked, value, ok := external.Remask(path, req.OldObject.Object, p.new); ok {
		p.new, p.fields = masked, map[string]any{"/" + strings.Join(path, "/"): value}
	}
}

// content of an object; nil for none.
func content(o *unstructured.Unstructured) map[string]any {
	if o == nil {
		return nil
	}
	return o.Object
}

// withPolicies is an object with other policies; nil leaves them.
func withPolicies(object map[string]any, policies []string) map[string]any {
	spec, ok := object["spec"].(map[string]any)
	if !ok || policies == nil {
		return object
	}
	if have, ok := spec[mask.FieldManagementPolicies].([]any); ok && slices.EqualFunc(have, policies, func(a any, b string) bool { return a == b }) {
		return object
	}
	spec = maps.Clone(spec)
	list := make([]any, 0, len(policies))
	for _, p := range policies {
		list = append(list, p)
	}
	spec[mask.FieldManagementPolicies] = list
	out := maps.Clone(object)
	out["spec"] = spec
	return out
}

// gate puts the mask of an MR in the state that the admitted request calls for
// (spec 8): closed stays closed and open stays open, an accepted change opens
// it in its own write.
func (ev *evaluation) gate() {
	req, p := ev.req, ev.policies
	if !ev.kind.ManagementPolicies {
		if ev.mode == v1alpha1.ModeEnforce {
			ev.d.Fields = p.fields
		}
		return
	}
	if ev.mode != v1alpha1.ModeEnforce {
		ev.ungated()
		return
	}
	if isDeleting(req.Object) {
		ev.terminating()
		return
	}
	if req.OldObject != nil && len(ev.changes) == 0 && slices.Equal(p.incoming, p.stored) {
		return // what is stored stands, and its annotations are protected
	}
	if !mask.Maskable(p.author) || !slices.Contains(mask.Expand(p.author), v1alpha1.VerbObserve) {
		ev.unmask()
		return
	}
	if req.OldObject != nil && !p.remembered && !ev.opens() {
		// It is masked for the first time by the gate controller, at its own pace;
		// not by the function.
		ev.setPolicies(p.author)
		return
	}
	gate := mask.ParseGate(ev.stored)
	if next, ok := ev.transition(gate); ok {
		gate, ev.d.Gate = next, &next
	}
	ev.mask(gate)
}

// ungated is an MR in log mode: nothing is masked. The author's own value stands
// where the request brings it, or another, and a remembered one would outlive its next
// change; so does that of a restored backup, mask and all.
func (ev *evaluation) ungated() {
	p := ev.policies
	if ev.req.OldObject == nil || !slices.Equal(p.incoming, p.stored) || !slices.Equal(p.before, p.author) {
		ev.unmask()
	}
}

// terminating is an MR that is being deleted. Nothing of ours takes Delete from
// it; a re-apply of the author's value does not give it back either. Nor does a
// controller take or give it, whose changes of such an object nobody judges: a
// Composition that changed meanwhile would orphan what is to be deleted, or
// delete what is to be left behind.
func (ev *evaluation) terminating() {
	p := ev.policies
	before, ok := mask.ParseAuthor(annotation(ev.req.stored(), v1alpha1.AnnotationKeyManagementPolicies))
	was, is := mask.Gives(p.stored, v1alpha1.VerbDelete), mask.Gives(p.incoming, v1alpha1.VerbDelete)
	if was != is && ev.controllerWrites() || ok && !was && slices.Equal(p.incoming, before) {
		ev.setPolicies(p.stored)
	}
}

// unmask where the author's value leaves nothing to take away.
func (ev *evaluation) unmask() {
	if ev.policies.remembered {
		ev.set1(v1alpha1.AnnotationKeyManagementPolicies, nil)
		ev.set1(v1alpha1.AnnotationKeyGate, gating.Lifted(ev.stored[v1alpha1.AnnotationKeyGate], ev.nextGeneration(), ev.req.Time))
	}
	ev.setPolicies(ev.policies.author)
}

func (ev *evaluation) mask(gate v1alpha1.Gate) {
	ev.put(v1alpha1.AnnotationKeyManagementPolicies, mask.FormatAuthor(ev.policies.author))
	if ev.d.Gate != nil {
		ev.put(v1alpha1.AnnotationKeyGate, mask.FormatGate(gate))
		if ev.kind.ReconcileRequests && gate.State == v1alpha1.GateOpen {
			ev.put(v1alpha1.AnnotationKeyReconcileRequestedAt, ev.req.Time.UTC().Format(time.RFC3339Nano))
		}
	}
	ev.setPolicies(gating.MaskedPolicies(ev.policies.author, gate, ev.closeTo(), ev.kind))
}

func (ev *evaluation) setPolicies(value []string) {
	if value != nil && !slices.Equal(value, ev.policies.incoming) {
		ev.d.ManagementPolicies = value
	}
}

// opens reports whether the admitted change may go on to the external resource:
// somebody asked for it or approved it, and it is about the resource.
func (ev *evaluation) opens() bool {
	switch {
	case ev.governed() && len(ev.governedVerbs()) == 0:
		return false
	case ev.req.Operation == Create:
		return !ev.governed() || slices.Contains(ev.governedVerbs(), v1alpha1.VerbCreate)
	case ev.d.Class == ClassSelf, ev.d.Reason == ReasonNoChange, ev.d.Reason == ReasonBeingDeleted:
		return false
	case ev.d.Class == ClassDrift && ev.d.Resolution != ResolutionApproved && ev.d.Resolution != ResolutionUpgraded:
		return false
	}
	return slices.ContainsFunc(ev.changes, func(c change.Change) bool {
		return !change.Under(c.Path, "spec."+mask.FieldManagementPolicies) && !change.Under(c.Path, "spec.deletionPolicy")
	})
}

// transition of the gate by the admitted request; ok is false where it stays.
func (ev *evaluation) transition(gate v1alpha1.Gate) (v1alpha1.Gate, bool) {
	if !ev.opens() {
		return gate, false
	}
	verbs := []v1alpha1.Verb{v1alpha1.VerbUpdate}
	if ev.governed() {
		verbs = ev.governedVerbs()
	}
	next, pending := gating.Acceptance{
		Gate: gate, Create: ev.req.Operation == Create, Verbs: verbs, Paths: change.Paths(ev.changes),
		Generation: ev.nextGeneration(), Time: ev.req.Time, CarryPendingDrift: ev.Options.CarryPendingDrift,
		Difference:      func() []change.Change { return ev.relevant(ev.req.whole().Object) },
		DifferenceAfter: func() []change.Change { return ev.relevant(ev.changed()) },
	}.Transition()
	if len(pending) > 0 {
		ev.warn("the external resource already differs (" + change.Summary(pending, 5) +
			"); the gate stays closed until that difference is approved, see kubectl get drifts")
	}
	return next, true
}

// changed is the managed resource with its new spec, and the status that the
// provider has reported so far.
func (ev *evaluation) changed() map[string]any {
	return map[string]any{"spec": ev.policies.new["spec"], "status": ev.req.whole().Object["status"]}
}

// relevant differences of the external resource: those that no rule ignores.
func (ev *evaluation) relevant(object map[string]any) []change.Change {
	return ev.settings.Relevant(ev.Options.Ignore.Filter(ev.req.Kind.GroupKind(), external.Difference(object)))
}
