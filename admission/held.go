package admission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mixed"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// half of a change of which a part was refused as drift before the last intent, and is wanted unchanged after it. The zero value
// is the whole change.
type half struct {
	// held: all of it was held before the last intent. It is drift.
	held bool
	// whole is the change that it is a half of; nil for the whole.
	whole *facts
}

// conclusion of the steps: the evaluation of the change, or of that half of it, which the verdict is about.
type conclusion struct {
	of *evaluation
	verdict
	// warned is what was found before, beside the warnings of the evaluation.
	warned []string
}

// decideHalves separates what an intent causes from what was held as drift before it (KR-05-55). All of a change that was held is
// drift as before. Of a mixed one each half is decided for itself (KR-05-56): what was held stays so, and the rest passes.
func (ev *evaluation) decideHalves() (conclusion, error) {
	if ev.req.Held == nil || ev.class.class != ClassExpected || ev.class.selfHealing || !ev.actor().controller {
		return ev.decideWhole(false)
	}
	if ev.req.Operation != Update {
		if ev.req.Held.Whole {
			return ev.heldHalf(nil).decideWhole(false)
		}
		return ev.decideWhole(false)
	}
	parts := mixed.Split(ev.leaves(), ev.req.Held)
	if n := len(parts.Both); n > 0 {
		ev.warnings.add(fmt.Sprintf("%s was held with another value before the last intent of %s: it passes with both causes, the intent and %s",
			strings.Join(parts.Both[:min(n, maxPaths)], ", "), identity.Describe(ev.parent().Ref), ev.causeOf(ev.parent())))
	}
	switch {
	case len(parts.Held) == 0:
		return ev.decideWhole(len(parts.Both) > 0)
	case parts.Rest == 0:
		return ev.putBack(parts.Held)
	}
	return ev.join(parts)
}

// maxPaths is the number of paths that a warning names.
const maxPaths = 5

// decideWhole runs the steps about the change; both: an intent and a cause of drift change the same path.
func (ev *evaluation) decideWhole(both bool) (conclusion, error) {
	v, err := ev.first(changeSteps)
	v.both = both
	return conclusion{of: ev, verdict: v}, err
}

// heldHalf of the change: what was held. It is the change itself where f is nil.
func (ev *evaluation) heldHalf(f *facts) *evaluation {
	class := ev.class
	class.class = ClassDrift
	out := &evaluation{facts: ev.facts, ctx: ev.ctx, live: ev.live, deletion: ev.deletion, found: ev.found, class: class, half: half{held: true}}
	if f == nil { // what policies do not allow of the change, they do not allow now
		out.narrowed = ev.narrowed
		return out
	}
	out.facts, out.half.whole = f, ev.facts
	out.class.id = f.req.DifferenceID(ev.parent(), f.changes)
	return out
}

// restHalf of the change: what is left without what was held.
func (ev *evaluation) restHalf(f *facts) *evaluation {
	class := ev.class
	class.id = f.req.DifferenceID(ev.parent(), f.changes)
	return &evaluation{facts: f, ctx: ev.ctx, live: ev.live, deletion: ev.deletion, found: ev.found, class: class, half: half{whole: ev.facts}}
}

// putBack the stored values of a change by the parent's controller all of which was held
// before, while the parent carries out an intent: refused, its controller would
// report that it cannot, and never settle (KR-05-62). Once it has settled the change
// is refused as any other drift. The composition function leaves out what is refused.
func (ev *evaluation) putBack(held map[string]bool) (conclusion, error) {
	whole := ev.heldHalf(nil)
	out, err := whole.decideWhole(false)
	out.warned = ev.warnings
	if err != nil || out.Allowed || ev.req.Actor != ActorUnknown || !ev.separates() {
		return out, err
	}
	withheld := whole.withheld(out.verdict)
	f, err := ev.without(func(path string) bool { return held[path] })
	if err != nil {
		return conclusion{}, err
	}
	rest := ev.restHalf(f)
	v := rest.allowAs(ClassNone, ReasonNoChange)
	v.withheld = withheld
	return conclusion{of: rest, verdict: v, warned: slices.Concat(ev.warnings, whole.warnings)}, nil
}

// join the decisions about the two halves of a change (KR-05-56). Where what was held is approved, the whole passes by its
// approval; where it is refused, the rest passes without it.
func (ev *evaluation) join(parts mixed.Parts) (conclusion, error) {
	heldFacts, err := ev.without(func(path string) bool { return !parts.Held[path] })
	if err != nil {
		return conclusion{}, err
	}
	restFacts, err := ev.without(func(path string) bool { return parts.Held[path] })
	if err != nil {
		return conclusion{}, err
	}
	return ev.joinHalves(ev.heldHalf(heldFacts), ev.restHalf(restFacts), len(parts.Both) > 0)
}

// joinHalves decides about each half, and joins the decisions; both: an intent and a cause of drift change the same path.
func (ev *evaluation) joinHalves(held, rest *evaluation, both bool) (conclusion, error) {
	refused, err := held.first(changeSteps)
	if err != nil {
		return conclusion{}, err
	}
	allowed, err := rest.first(changeSteps)
	if err != nil {
		return conclusion{}, err
	}
	joined := mixed.Join(refused.half(), allowed.half(), mixed.Policy{Causes: ev.mixedCauses(), Separates: ev.separates()})
	var logged *Held
	if refused.Reason == ReasonDriftLogged {
		logged = held.decision(refused).Drift
	}
	if joined != mixed.Passes && refused.Allowed && allowed.Allowed { // a write claims one approval: this half passes with the next
		r := held.driftRefusal()
		refused = held.refuse(r)
		refused.Suggestion = r.suggestion
	}
	switch joined {
	case mixed.Passes:
		if allowed.claims() {
			refused.Claim, refused.PolicyClaim, refused.approval = allowed.Claim, allowed.PolicyClaim, allowed.approval
		}
		refused.ID, refused.both, refused.logged = held.class.id, both, logged
		return conclusion{of: ev, verdict: refused, warned: slices.Concat(held.warnings, rest.warnings)}, nil
	case mixed.PassesWithBothCauses:
		ev.warnings.add(fmt.Sprintf(
			"%s was held before the last intent of %s: it passes with both causes, the intent and %s, since mixedCauses is Admit",
			change.Summary(held.changes, maxPaths), identity.Describe(ev.parent().Ref), ev.causeOf(ev.parent())))
		allowed.both, allowed.logged = true, logged
		return conclusion{of: ev, verdict: allowed}, nil
	case mixed.PassesWithoutHeld:
		allowed.withheld, allowed.both = held.withheld(refused), both
		warned := ev.warnings
		if ev.req.Actor == ActorUnknown {
			warned = slices.Concat(warned, held.warnings)
		}
		return conclusion{of: rest, verdict: allowed, warned: warned}, nil
	case mixed.RestRefused:
		return conclusion{of: rest, verdict: allowed, warned: ev.warnings}, nil
	}
	if allowed.Allowed {
		refused = held.withMixedCauses(refused)
	}
	return conclusion{of: held, verdict: refused, warned: ev.warnings}, nil
}

// half is what the outcome of a change depends on.
func (v verdict) half() mixed.Half {
	return mixed.Half{Allowed: v.Allowed, Claims: v.claims(), Rejected: v.Reason == ReasonRejected}
}

// claims reports whether the change passes by an approval that must be claimed.
func (v verdict) claims() bool { return v.Claim != nil || v.PolicyClaim != nil }

// withheld is the refusal of a half without which the write passes, with the warning about it.
func (ev *evaluation) withheld(v verdict) *Decision {
	d := ev.decision(v)
	if d.Report != nil {
		report := *d.Report
		report.Separated = true
		d.Report = &report
	}
	if ev.req.Actor == ActorUnknown {
		ev.warnings.add("the stored values are kept: " + d.Message)
	}
	return &d
}

// mixedCauses is how a change is decided of which a part was held before (KR-05-62 to KR-05-64).
func (f *facts) mixedCauses() v1alpha1.MixedCauses {
	switch {
	case f.req.Actor != ActorUnknown:
		return v1alpha1.MixedCausesHold
	case f.stale: // Crossplane composes it again
		return v1alpha1.MixedCausesRefuse
	case f.settings.MixedCauses != "":
		return f.settings.MixedCauses
	case subject.IsComposedApply(f.manager):
		return v1alpha1.MixedCausesHold
	}
	return v1alpha1.MixedCausesRefuse
}

// separates reports whether the write can pass without what was held before. A change
// through /scale cannot: it is one field.
func (f *facts) separates() bool {
	return f.Options.Separates && f.req.Subresource == "" && f.mixedCauses() == v1alpha1.MixedCausesHold
}

// withMixedCauses is the refusal of a change that has other changes beside what is held.
func (ev *evaluation) withMixedCauses(v verdict) verdict {
	if ev.stale || v.Reason == ReasonRejected {
		return v
	}
	r := ev.driftRefusal()
	r.why += "; the same write has what the intent causes, and is refused as a whole (mixedCauses: Refuse)"
	v.Message, v.Why = ev.message(r), r.why
	return v
}

// without are the facts of the update with some paths as stored.
func (ev *evaluation) without(paths func(path string) bool) (*facts, error) {
	req := *ev.req
	req.Object = &unstructured.Unstructured{Object: ev.keeping(paths)}
	f, err := ev.collect(ev.ctx, &req)
	if err != nil {
		return nil, err
	}
	f.stale = ev.stale
	return f, nil
}

// keeping is the content of the object with some paths as stored.
func (f *facts) keeping(keep func(path string) bool) map[string]any {
	c, old, object := f.comparison(), f.req.OldObject, f.req.Object
	out := c.Part(old.Object, object.Object, func(l change.Leaf) bool { return keep(l.Path) })
	if f.retarget && keep(PathExternalName) {
		u := &unstructured.Unstructured{Object: out}
		metadata, _ := u.Object["metadata"].(map[string]any)
		u.Object["metadata"] = maps.Clone(metadata)
		annotations := maps.Clone(u.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if name, ok := old.GetAnnotations()[v1alpha1.AnnotationKeyExternalName]; ok {
			annotations[v1alpha1.AnnotationKeyExternalName] = name
		} else {
			delete(annotations, v1alpha1.AnnotationKeyExternalName)
		}
		u.SetAnnotations(annotations)
	}
	return out
}

// recorded returns a request with what the composition function recorded as held on the stored
// object: its own apply may be based on a read from before that (KR-05-60).
func recorded(req *Request, manager string) *Request {
	if req.Actor != ActorUnknown || req.Held != nil || req.Operation != Update || !subject.IsComposedApply(manager) {
		return req
	}
	value := identity.Annotation(req.OldObject, v1alpha1.AnnotationKeyHeld)
	if value == "" {
		return req
	}
	var h v1alpha1.Held
	if json.Unmarshal([]byte(value), &h) != nil || h.Operation != string(Update) {
		return req
	}
	out := *req
	out.Held = HeldOf(h.HeldDrift)
	return &out
}

// comparison of the object before and after. The composition function knows the lists of
// built-in kinds alone, and what it recorded has the paths that it saw.
func (f *facts) comparison() change.Comparison {
	return change.Comparison{Lists: change.BuiltinLists(f.req.Kind), Unstored: f.req.Unstored(), Secrets: f.secrets()}
}

// leaves of an update; nil for other operations.
func (f *facts) leaves() []change.Leaf {
	if f.req.Operation != Update {
		return nil
	}
	out := f.comparison().Leaves(f.policies.old, f.policies.new)
	for _, c := range f.changes {
		if c.Path == PathExternalName {
			value, _ := c.New.(string)
			out = append(out, change.Leaf{Path: PathExternalName, Value: value})
		}
	}
	return out
}

// withHeld completes a decision with what is held of the change, and with what is to be remembered.
func (ev *evaluation) withHeld(v verdict, d Decision) Decision {
	d.Before = ev.half.held && !d.Allowed
	switch {
	case d.Allowed && v.withheld != nil:
		d.Held, d.Rest = v.withheld, ev.req.Object
	case !ev.Options.Remember:
	case v.logged != nil:
		d.Drift = v.logged
	case ev.class.class == ClassDrift && (remembered[d.Reason] || d.Reason == ReasonDriftLogged):
		intent := ev.view().intent
		since := v1alpha1.SettledIntent{Generation: intent.Generation, At: intent.Timestamp}
		d.Drift = ev.req.Held.With(ev.leaves(), ev.req.Operation != Update, since)
	case d.Allowed:
	case ev.half.whole != nil:
		d.Drift = ev.req.Held.Still(ev.half.whole.leaves())
	default: // a freeze is no drift, and ends none
		d.Drift = ev.req.Held.Still(ev.leaves())
	}
	if d.Report != nil && d.Drift != nil && d.Reason != ReasonFrozen {
		report := *d.Report
		report.Held = d.Drift.Drift()
		d.Report = &report
	}
	return d
}

// remembered are the refusals as drift.
var remembered = map[Reason]bool{ReasonDrift: true, ReasonAllowanceMissing: true, ReasonRejected: true}

// approvedSince is the intent generation that an approval must have: what was held
// before the last intent is approved from when it was first held (KR-05-58).
func (ev *evaluation) approvedSince() int64 {
	intent := ev.view().intent.Generation
	if !ev.half.held || ev.req.Held.Since.Generation == 0 {
		return intent
	}
	return min(intent, ev.req.Held.Since.Generation)
}
