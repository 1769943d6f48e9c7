package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// heldPart of a change: what was refused as drift before the last intent, and is
// wanted unchanged after it. The zero value is none.
type heldPart struct {
	// before: all of the change that is decided was held before the last intent.
	before bool
	// both: an intent and a cause of drift change the same path.
	both bool
	// refusal of the part that the change is decided without; nil for none.
	refusal *Decision
	// whole is the change of which a part is decided; nil for all of it.
	whole *facts
	// logged is what passes as drift beside what the intent causes; nil for none.
	logged *Held
}

// heldBefore separates what an intent causes from what was held as drift before it
// (KR-05-55). All of a change that was held is drift as before. Of a mixed one each part
// is decided for itself (KR-05-56): what was held stays so, and the rest passes.
func (ev *evaluation) heldBefore() (verdict, error) {
	if ev.req.Held == nil || ev.class.class != ClassExpected || ev.class.selfHealing || !ev.actor().controller {
		return verdict{}, nil
	}
	if ev.req.Operation != Update {
		if ev.req.Held.Whole {
			ev.class.class, ev.held.before = ClassDrift, true
		}
		return verdict{}, nil
	}
	held, rest := ev.separate()
	switch {
	case len(held) == 0:
		return verdict{}, nil
	case rest == 0:
		ev.class.class, ev.held.before = ClassDrift, true
		return ev.putBack(held)
	}
	return ev.mixed(held)
}

// mixedCauses is how a change is decided of which a part was held before (KR-05-62 to KR-05-64).
func (ev *evaluation) mixedCauses() v1alpha1.MixedCauses {
	switch {
	case ev.req.Actor != ActorUnknown:
		return v1alpha1.MixedCausesHold
	case ev.stale: // Crossplane composes it again
		return v1alpha1.MixedCausesRefuse
	case ev.settings.MixedCauses != "":
		return ev.settings.MixedCauses
	case subject.IsComposedApply(ev.manager):
		return v1alpha1.MixedCausesHold
	}
	return v1alpha1.MixedCausesRefuse
}

// separates reports whether the write can pass without what was held before. A change
// through /scale cannot: it is one field.
func (ev *evaluation) separates() bool {
	return ev.Options.Separates && ev.req.Subresource == "" && ev.mixedCauses() == v1alpha1.MixedCausesHold
}

// putBack the stored values of a change by the parent's controller all of which was held
// before, while the parent carries out an intent: refused, its controller would
// report that it cannot, and never settle (KR-05-62). Once it has settled the change
// is refused as any other drift. The composition function leaves out what is refused.
func (ev *evaluation) putBack(held map[string]bool) (verdict, error) {
	if ev.req.Actor != ActorUnknown || !ev.separates() {
		return verdict{}, nil
	}
	v, err := ev.first(drifting)
	if err != nil || v.Allowed || v.Reason == "" {
		return v, err
	}
	d := ev.separated(v)
	rest, _, err := ev.part(func(path string) bool { return held[path] }, false)
	if err != nil {
		return verdict{}, err
	}
	rest.held.refusal = &d
	return ev.become(rest, rest.allowAs(ClassNone, ReasonNoChange))
}

// first verdict of some steps; the zero one for none.
func (ev *evaluation) first(steps []step) (v verdict, err error) {
	for _, s := range steps {
		if v, err = s(ev); err != nil || v.Reason != "" {
			break
		}
	}
	return v, err
}

// separated is the refusal of a part without which the write passes, with the warning about it.
func (ev *evaluation) separated(v verdict) Decision {
	d := ev.decision(v)
	if d.Report != nil {
		report := *d.Report
		report.Separated = true
		d.Report = &report
	}
	if ev.req.Actor == ActorUnknown {
		ev.warnings.add("the stored values are kept: " + d.Message)
	}
	return d
}

// separate the leaves of an update: those that were held, and the number of others. A
// path that the intent and the cause of the drift both change passes with a warning (KR-05-57).
func (ev *evaluation) separate() (held map[string]bool, rest int) {
	held = map[string]bool{}
	var both []string
	for _, l := range ev.leaves() {
		switch {
		case ev.req.Held.Has(l):
			held[l.Path] = true
			continue
		case ev.req.Held.Changed(l):
			both = append(both, l.Path)
		}
		rest++
	}
	if n := len(both); n > 0 {
		ev.held.both = true
		ev.warnings.add(fmt.Sprintf("%s was held with another value before the last intent of %s: it passes with both causes, the intent and %s",
			strings.Join(both[:min(n, maxBoth)], ", "), identity.Describe(ev.parent().Ref), ev.causeOf(ev.parent())))
	}
	return held, rest
}

// maxBoth is the number of paths that a warning about two causes names.
const maxBoth = 5

// drifting are the steps that decide about drift, in their order; caused those about the rest.
var (
	drifting = []step{(*evaluation).rejected, (*evaluation).upgraded, (*evaluation).approved, (*evaluation).excepted, (*evaluation).drift}
	caused   = append([]step{(*evaluation).expected}, drifting...)
)

// mixed decides about a change of which a part was held before. Where that part is
// approved, the whole passes by its approval; where it is refused, the rest passes without it.
func (ev *evaluation) mixed(held map[string]bool) (verdict, error) {
	part, refused, err := ev.part(func(path string) bool { return !held[path] }, true)
	if err != nil {
		return verdict{}, err
	}
	rest, allowed, err := ev.part(func(path string) bool { return held[path] }, false)
	if err != nil {
		return verdict{}, err
	}
	if refused.Reason == ReasonDriftLogged {
		ev.held.logged = part.decision(refused).Drift
	}
	switch {
	case refused.Allowed && allowed.Allowed && !(refused.claims() && allowed.claims()):
		ev.warnings.add(slices.Concat(part.warnings, rest.warnings)...)
		ev.class.id = part.class.id
		if allowed.claims() {
			refused.Claim, refused.PolicyClaim, refused.approval = allowed.Claim, allowed.PolicyClaim, allowed.approval
		}
		return refused, nil
	case refused.Allowed && !allowed.Allowed:
		return ev.become(rest, allowed)
	case !allowed.Allowed:
		return ev.become(part, refused)
	case refused.Allowed: // a write uses one approval: this one with the next
		r := part.driftRefusal()
		refused = part.refuse(r)
		refused.Suggestion = r.suggestion
	}
	return ev.undecided(part, rest, refused, allowed)
}

// undecided is a change of which one part is refused and the rest is allowed (KR-05-56).
func (ev *evaluation) undecided(part, rest *evaluation, refused, allowed verdict) (verdict, error) {
	switch {
	case ev.separates():
		d := part.separated(refused)
		rest.held.refusal, rest.held.both = &d, ev.held.both
		if ev.req.Actor == ActorUnknown {
			rest.warnings = slices.Concat(part.warnings, rest.warnings)
		}
		return ev.become(rest, allowed)
	case ev.mixedCauses() == v1alpha1.MixedCausesAdmit && refused.Reason != ReasonRejected:
		ev.held.both = true
		ev.warnings.add(fmt.Sprintf(
			"%s was held before the last intent of %s: it passes with both causes, the intent and %s, since mixedCauses is Admit",
			change.Summary(part.changes, maxBoth), identity.Describe(ev.parent().Ref), ev.causeOf(ev.parent())))
		return allowed, nil
	}
	if !ev.stale && refused.Reason != ReasonRejected {
		r := part.mixedRefusal()
		refused.Message, refused.Why = part.message(r), r.why
	}
	return ev.become(part, refused)
}

// mixedRefusal is the refusal of a change that has other changes beside what is held.
func (ev *evaluation) mixedRefusal() refusal {
	r := ev.driftRefusal()
	r.why += "; the same write has what the intent causes, and is refused as a whole (mixedCauses: Refuse)"
	return r
}

// become the evaluation of a part of the change.
func (ev *evaluation) become(part *evaluation, v verdict) (verdict, error) {
	warnings := slices.Concat(ev.warnings, part.warnings)
	*ev = *part
	ev.warnings = warnings
	return v, nil
}

// claims reports whether the change passes by an approval that must be claimed.
func (v verdict) claims() bool { return v.Claim != nil || v.PolicyClaim != nil }

// part of an update, by the paths that are kept as stored, with the decision about it.
// What was held before is drift.
func (ev *evaluation) part(keep func(path string) bool, before bool) (*evaluation, verdict, error) {
	req := *ev.req
	req.Object = &unstructured.Unstructured{Object: ev.keeping(keep)}
	f, err := ev.collect(ev.ctx, &req)
	if err != nil {
		return nil, verdict{}, err
	}
	f.stale = ev.stale
	sub := &evaluation{facts: f, ctx: ev.ctx, live: ev.live, found: ev.found, deletion: ev.deletion, held: heldPart{whole: ev.facts}}
	if _, err := sub.classify(); err != nil {
		return nil, verdict{}, err
	}
	steps := caused
	if before {
		sub.class.class, sub.held.before, steps = ClassDrift, true, drifting
	}
	v, err := sub.first(steps)
	return sub, v, err
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

// warnHeld warns a user who changes an object of whose children changes are held: what
// this change does not request remains held, and is named (KR-05-61).
func (ed *editor) warnHeld() {
	if ed.req.OldObject == nil || ed.req.User.IsMachine() {
		return
	}
	below := ed.below(ed.ctx)
	if n := len(below); n > 0 {
		names := make([]string, 0, maxWarned)
		for _, b := range below[:min(n, maxWarned)] {
			names = append(names, b.String())
		}
		if n > maxWarned {
			names = append(names, fmt.Sprintf("and %d more", n-maxWarned))
		}
		ed.warnings.add("changes below " + identity.Describe(ed.req.Ref()) + " are held from before: " + strings.Join(names, "; ") +
			"; what this change does not request " + ed.fate() + " (kubectl kausality pending)")
		return
	}
	if ed.kind.Role != parent.RoleComposite {
		return
	}
	p := parent.Sum(ed.req.Whole(), ed.kind.Role)
	if c, ok := p.Condition(v1alpha1.ConditionKausality); ok && c.Reason == v1alpha1.ConditionReasonHeld {
		ed.warnings.add("changes of resources below " + identity.Describe(ed.req.Ref()) +
			" are held from before: what this change does not request remains held until it is approved (kubectl kausality pending)")
	}
}

// fate of what is held, by the policy of the object: its children are usually of the same one.
func (ed *editor) fate() string {
	if ed.settings.MixedCauses == v1alpha1.MixedCausesAdmit {
		return "is applied with it"
	}
	return "remains held until it is approved"
}

// maxWarned is the number of held changes that a warning names.
const maxWarned = 5

// String names the child, the fields and the id.
func (b Below) String() string {
	out := b.Child
	switch {
	case b.Operation == Create:
		out = "the creation of " + out
	case b.Operation == Delete:
		out = "the deletion of " + out
	case len(b.Paths) > 0:
		n := min(len(b.Paths), maxBoth)
		out = strings.Join(b.Paths[:n], ", ") + " of " + out
		if more := len(b.Paths) - n; more > 0 {
			out = fmt.Sprintf("%s and %d more fields", strings.Join(b.Paths[:n], ", "), more) + " of " + b.Child
		}
	}
	if b.ID != "" {
		out += " (" + b.ID + ")"
	}
	return out
}

// below is what is held of the object's children and theirs.
func (f *facts) below(ctx context.Context) []Below {
	if f.req.OldObject == nil {
		return nil
	}
	return f.World.Below(ctx, parent.Sum(f.req.OldObject, f.kind.Role))
}

// approvalsHeld are the intent generations since which differences of the object's children are
// held, by their ids: an approval of one of them is not stale before (KR-05-58). What the composition
// function holds is known by its condition alone: none of its approvals is stale then.
func (f *facts) approvalsHeld(ctx context.Context) func(digest string) (since int64, held bool) {
	since, function := map[string]int64{}, false
	for _, b := range f.below(ctx) {
		if b.Own {
			since[b.ID] = b.Since
		}
	}
	if f.kind.Role == parent.RoleComposite && f.req.OldObject != nil {
		c, ok := parent.Sum(f.req.Whole(), f.kind.Role).Condition(v1alpha1.ConditionKausality)
		function = ok && c.Reason == v1alpha1.ConditionReasonHeld
	}
	return func(digest string) (int64, bool) {
		if at, ok := since[digest]; ok {
			return at, true
		}
		return 0, function && digest != ""
	}
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
func (ev *evaluation) withHeld(d Decision) Decision {
	d.Before = ev.held.before && !d.Allowed
	switch {
	case d.Allowed && ev.held.refusal != nil:
		d.Held, d.Rest = ev.held.refusal, ev.req.Object
	case !ev.Options.Remember:
	case ev.held.logged != nil:
		d.Drift = ev.held.logged
	case ev.class.class == ClassDrift && (remembered[d.Reason] || d.Reason == ReasonDriftLogged):
		intent := ev.view().intent
		since := v1alpha1.SettledIntent{Generation: intent.Generation, At: intent.Timestamp}
		d.Drift = ev.req.Held.With(ev.leaves(), ev.req.Operation != Update, since)
	case d.Allowed:
	case ev.held.whole != nil:
		d.Drift = ev.req.Held.Still(ev.held.whole.leaves())
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
	if !ev.held.before || ev.req.Held.Since.Generation == 0 {
		return intent
	}
	return min(intent, ev.req.Held.Since.Generation)
}
