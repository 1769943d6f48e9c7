package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mixed"
	"github.com/kausality-io/function-kausality/admission/outcome"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// half of a change. A part of the change was refused as drift before the last intent, and is wanted unchanged after it. The zero
// value is the whole change.
type half struct {
	// held: all of it was held before the last intent. It is drift.
	held bool
	// whole is the change that it is a half of; nil for the whole.
	whole *facts.Facts
}

// conclusion of the steps: the evaluation of the change, or of that half of it, which the verdict is about.
type conclusion struct {
	of *evaluation
	*outcome.Verdict
	// warned is what was found before, beside the warnings of the evaluation.
	warned []string
}

// decideHalves separates the changes that an intent causes from those that were held as drift before it (KR-05-55). All of a
// change that was held is drift as before. Of a mixed one each half is decided for itself (KR-05-56): what was held stays so, and
// the rest passes.
func decideHalves(ev *evaluation) (conclusion, error) {
	if ev.Req.Held == nil || ev.class.class != outcome.ClassExpected || ev.class.selfHealing || !ev.actor().Controller {
		return decideWhole(ev, false)
	}
	if ev.Req.Operation != Update {
		if ev.Req.Held.Whole && !isRequested(ev, ev.Facts) {
			return decideWhole(heldHalf(ev, nil), false)
		}
		return decideWhole(ev, false)
	}
	parts := mixed.Split(ev.Leaves(), ev.Req.Held)
	if err := releaseRequested(ev, &parts); err != nil {
		return conclusion{}, err
	}
	if n := len(parts.Both); n > 0 {
		ev.warnings.Add(fmt.Sprintf("%s was held with another value before the last intent of %s: it passes with both causes, the intent and %s",
			strings.Join(parts.Both[:min(n, maxPaths)], ", "), identity.Describe(ev.parent().Ref), outcome.CauseOf(ev.Facts, ev.parent())))
	}
	switch {
	case len(parts.Held) == 0:
		return decideWhole(ev, len(parts.Both) > 0)
	case parts.Rest == 0:
		return putBack(ev)
	}
	return joinParts(ev, parts)
}

// releaseRequested takes those fields out of what was held that an allowance covers which an intent has granted since: that intent
// requests them (KR-05-68).
func releaseRequested(ev *evaluation, parts *mixed.Parts) error {
	if len(parts.Held) == 0 || len(grantedSince(ev)) == 0 {
		return nil
	}
	for path := range parts.Held {
		f, err := ev.Without(ev.ctx, func(p string) bool { return p != path })
		if err != nil {
			return err
		}
		if isRequested(ev, f) {
			delete(parts.Held, path)
			parts.Rest++
		}
	}
	return nil
}

// isRequested reports whether allowances cover a change that intents have granted since it was held.
func isRequested(ev *evaluation, f *facts.Facts) bool {
	granted := grantedSince(ev)
	return len(granted) > 0 && len(granted.Missing(f.Req.Kind.GroupKind(), f.Verb(), f.Fields())) == 0
}

// grantedSince returns the allowances of the parent, not consumed, that an intent has granted since the change was held. Where it is
// unknown since when it is, it was before the last intent.
func grantedSince(ev *evaluation) allowance.Entries {
	granted := ev.inherited().Since(cmp.Or(ev.Req.Held.Since.Generation, ev.view().intent.Generation-1))
	if ev.Inside() {
		return granted.Inside()
	}
	return granted
}

// maxPaths is the number of paths that a warning names.
const maxPaths = 5

// decideWhole runs the steps about the change; both: an intent and a cause of drift change the same path.
func decideWhole(ev *evaluation, both bool) (conclusion, error) {
	v, err := decideBy(ev, changeSteps)
	if err != nil {
		return conclusion{}, err
	}
	v.Both = both
	return conclusion{of: ev, Verdict: v}, nil
}

// heldHalf returns an evaluation of the part of the change that was held before. f holds the facts of
// that part; where f is nil, it is the whole change.
func heldHalf(ev *evaluation, f *facts.Facts) *evaluation {
	class := ev.class
	class.class = outcome.ClassDrift
	out := &evaluation{Facts: ev.Facts, ctx: ev.ctx, shared: ev.shared, live: ev.live, deletion: ev.deletion, found: ev.found, class: class,
		half: half{held: true}}
	if f == nil { // what policies do not allow of the change, they do not allow now
		out.narrowed = ev.narrowed
		return out
	}
	out.Facts, out.half.whole = f, ev.Facts
	out.class.digest = f.DifferenceDigest(ev.parent(), f.Changes)
	return out
}

// restHalf returns an evaluation of the rest of the change, without the part that was held before. f
// holds the facts of the rest.
func restHalf(ev *evaluation, f *facts.Facts) *evaluation {
	class := ev.class
	class.digest = f.DifferenceDigest(ev.parent(), f.Changes)
	return &evaluation{Facts: f, ctx: ev.ctx, shared: ev.shared, live: ev.live, deletion: ev.deletion, found: ev.found, class: class, half: half{whole: ev.Facts}}
}

// putBack decides about a change by the parent's controller that was held before as a whole, while the
// parent carries out an intent. It restores the stored values: if the change were refused, the
// controller would report a failure and never settle (KR-05-62). Once the parent has settled, the change
// is refused as any other drift. The composition function leaves out what is refused.
func putBack(ev *evaluation) (conclusion, error) {
	out, err := decideWhole(heldHalf(ev, nil), false)
	out.warned = ev.warnings
	if err != nil || out.Allowed || ev.Req.Actor != ActorUnknown || !ev.Separates() {
		return out, err
	}
	return keepStored(ev, out)
}

// putAllBack lets an update by kro pass that is refused as drift, with all that is stored: kro takes it for a success, and does not
// repeat it (KR-18-06). The gate wakes kro once it may pass, by the Drift of it. What no Drift has stays refused, so that kro repeats it:
// a rejection, what is frozen, and a difference until its Drift is recorded.
func putAllBack(out conclusion) (conclusion, error) {
	ev := out.of
	refused := out.Reason == outcome.ReasonDrift || out.Reason == outcome.ReasonAllowanceMissing
	if out.Allowed || !refused || ev.class.class != outcome.ClassDrift || !ev.PutsBack() || !ev.actor().Controller {
		return out, nil
	}
	if digest := ev.class.digest; !ev.World.Known(digest.ID()).Recorded(digest.Whole()) {
		return out, nil
	}
	return keepStored(ev, out)
}

// keepStored turns the refusal of an update into a write that changes nothing.
func keepStored(ev *evaluation, refused conclusion) (conclusion, error) {
	v := outcome.Allow(outcome.ClassNone, outcome.ReasonNoChange)
	v.Withheld, v.Unchanged = withheld(refused.of, refused.Verdict), ev.PutsBack()
	f, err := ev.Without(ev.ctx, func(string) bool { return true })
	if err != nil {
		return conclusion{}, err
	}
	return conclusion{of: restHalf(ev, f), Verdict: v, warned: slices.Concat(refused.warned, refused.of.warnings)}, nil
}

// joinParts combines the decisions about the two halves of a change (KR-05-56). Where the held half is
// approved, the whole change passes by its approval; where it is refused, the rest passes without it.
func joinParts(ev *evaluation, parts mixed.Parts) (conclusion, error) {
	heldFacts, err := ev.Without(ev.ctx, func(path string) bool { return !parts.Held[path] })
	if err != nil {
		return conclusion{}, err
	}
	restFacts, err := ev.Without(ev.ctx, func(path string) bool { return parts.Held[path] })
	if err != nil {
		return conclusion{}, err
	}
	return joinHalves(ev, heldHalf(ev, heldFacts), restHalf(ev, restFacts), len(parts.Both) > 0)
}

// joinHalves decides about each half, and joins the decisions; both: an intent and a cause of drift change the same path.
func joinHalves(ev *evaluation, held, rest *evaluation, both bool) (conclusion, error) {
	refused, err := decideBy(held, changeSteps)
	if err != nil {
		return conclusion{}, err
	}
	allowed, err := decideBy(rest, changeSteps)
	if err != nil {
		return conclusion{}, err
	}
	joined := mixed.Join(halfOf(refused), halfOf(allowed), mixed.Policy{Causes: ev.MixedCauses(), Separates: ev.Separates()})
	var logged *Held
	if refused.Reason == outcome.ReasonDriftLogged {
		logged = decisionOf(held, refused).Drift
	}
	if joined != mixed.Passes && refused.Allowed && allowed.Allowed { // a write claims one approval: this half passes with the next
		r := driftRefusal(held)
		refused = held.refuse(r)
		refused.Suggestion = r.Suggestion
	}
	switch joined {
	case mixed.Passes:
		if allowed.Claims() {
			refused.Claim, refused.PolicyClaim, refused.Approval = allowed.Claim, allowed.PolicyClaim, allowed.Approval
		}
		refused.Digest, refused.Both, refused.Logged = held.class.digest, both, logged
		return conclusion{of: ev, Verdict: refused, warned: slices.Concat(held.warnings, rest.warnings)}, nil
	case mixed.PassesWithBothCauses:
		ev.warnings.Add(fmt.Sprintf(
			"%s was held before the last intent of %s: it passes with both causes, the intent and %s, since mixedCauses is Admit",
			change.Summary(held.Changes, maxPaths), identity.Describe(ev.parent().Ref), outcome.CauseOf(ev.Facts, ev.parent())))
		allowed.Both, allowed.Logged = true, logged
		return conclusion{of: ev, Verdict: allowed}, nil
	case mixed.PassesWithoutHeld:
		allowed.Withheld, allowed.Both = withheld(held, refused), both
		warned := ev.warnings
		if ev.Req.Actor == ActorUnknown {
			warned = slices.Concat(warned, held.warnings)
		}
		return conclusion{of: rest, Verdict: allowed, warned: warned}, nil
	case mixed.RestRefused:
		return conclusion{of: rest, Verdict: allowed, warned: ev.warnings}, nil
	}
	if allowed.Allowed {
		refused = withMixedCauses(held, refused)
	}
	return conclusion{of: held, Verdict: refused, warned: ev.warnings}, nil
}

// halfOf returns what the outcome of a change depends on.
func halfOf(v *outcome.Verdict) mixed.Half {
	return mixed.Half{Allowed: v.Allowed, Claims: v.Claims(), Rejected: v.Reason == outcome.ReasonRejected}
}

// withheld returns the refusal of a half without which the write passes, with the warning about it.
func withheld(ev *evaluation, v *outcome.Verdict) *Decision {
	d := decisionOf(ev, v)
	if d.Report != nil {
		report := *d.Report
		report.Separated = true
		d.Report = &report
	}
	if ev.Req.Actor == ActorUnknown {
		ev.warnings.Add("the stored values are kept: " + d.Message)
	}
	return &d
}

// withMixedCauses returns the refusal of a change that has other changes beside what is held.
func withMixedCauses(ev *evaluation, v *outcome.Verdict) *outcome.Verdict {
	if ev.Stale || v.Reason == outcome.ReasonRejected {
		return v
	}
	r := driftRefusal(ev)
	r.Why += "; the same write has what the intent causes, and is refused as a whole (mixedCauses: Refuse)"
	v.Message, v.Why = outcome.Message(ev.Facts, r), r.Why
	return v
}

// withHeld completes a decision with the part of the change that is held, and with the record to
// remember.
func withHeld(ev *evaluation, v *outcome.Verdict, d Decision) Decision {
	d.Before = ev.half.held && !d.Allowed
	switch {
	case d.Allowed && v.Withheld != nil:
		d.Held, d.Rest = v.Withheld, ev.Req.Object
		if d.Unchanged {
			d.Rest = ev.Req.OldObject
		}
	case !ev.Options.Remember:
	case v.Logged != nil:
		d.Drift = v.Logged
	case ev.class.class == outcome.ClassDrift && (remembered[d.Reason] || d.Reason == outcome.ReasonDriftLogged):
		intent := ev.view().intent
		since := v1alpha1.SettledIntent{Generation: intent.Generation, At: intent.Timestamp}
		d.Drift = ev.Req.Held.With(ev.Leaves(), ev.Req.Operation != Update, since)
	case d.Allowed:
	case ev.half.whole != nil:
		d.Drift = ev.Req.Held.Still(ev.half.whole.Leaves())
	default: // a freeze is no drift, and ends none
		d.Drift = ev.Req.Held.Still(ev.Leaves())
	}
	if d.Report != nil && d.Drift != nil && d.Reason != outcome.ReasonFrozen {
		report := *d.Report
		report.Held = d.Drift.Drift()
		d.Report = &report
	}
	return d
}

// remembered are the refusals as drift.
var remembered = map[outcome.Reason]bool{outcome.ReasonDrift: true, outcome.ReasonAllowanceMissing: true, outcome.ReasonRejected: true}

// approvedSince returns the intent generation that an approval must have: what was held before the
// last intent is approved from when it was first held (KR-05-58).
func (ev *evaluation) approvedSince() int64 {
	intent := ev.view().intent.Generation
	if !ev.half.held || ev.Req.Held.Since.Generation == 0 {
		return intent
	}
	return min(intent, ev.Req.Held.Since.Generation)
}
