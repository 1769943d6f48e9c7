package admission

import (
	"cmp"

	"github.com/kausality-io/function-kausality/admission/outcome"
)

// allow returns the verdict that allows a change of the class that is known so far.
func (ev *evaluation) allow(r outcome.Reason) *outcome.Verdict {
	return outcome.Allow(ev.effectiveClass(), r)
}

// refuse returns the verdict that refuses a change of the class that is known so far (KR-05-23,
// KR-05-24).
func (ev *evaluation) refuse(r outcome.Refusal) *outcome.Verdict {
	return outcome.Refuse(ev.Facts, ev.effectiveClass(), r)
}

// decisionOf returns the Decision by a verdict, before the edits of the object. What the verdict leaves
// open is that of the change, or of the deletion of its external resource.
func decisionOf(ev *evaluation, v *outcome.Verdict) Decision {
	d := Decision{Answer: v.Answer}
	d.Phase, d.Changes = ev.class.phase, ev.Changes
	d.Mode, d.Digest = cmp.Or(d.Mode, ev.Mode), cmp.Or(d.Digest, ev.class.digest, ev.deletion.Digest)
	d.Report, d.Suggestion = cmp.Or(d.Report, ev.deletion.Report), cmp.Or(d.Suggestion, ev.deletion.Suggestion)
	if d.Allowed {
		d.Claim = cmp.Or(d.Claim, ev.deletion.Claim)
		d.Orphans = ev.deletion.Orphans
	}
	return withHeld(ev, v, d)
}
