package admission

import (
	"cmp"
	"fmt"

	"github.com/kausality-io/function-kausality/admission/facts"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// verdict of a step: what it decides of the Decision. It has a Reason; the zero verdict
// is none, and an empty Mode is that of the object.
type verdict struct {
	Decision
	// approval that lets drift pass, for the hop; nil for none.
	approval *v1alpha1.HopApproval
	// upgrade that lets drift pass; nil for none.
	upgrade *allowance.Upgrade
	// withheld is the refusal of the half that the change passes without; nil for none.
	withheld *Decision
	// both: an intent and a cause of drift change the same path.
	both bool
	// logged is what passes as drift beside what the intent causes; nil for none.
	logged *Held
}

// refusal holds the parts of a denial message.
type refusal struct {
	code   int32
	reason Reason
	// why, as a clause without a full stop.
	why string
	// next is what to do, as sentences.
	next string
	// suggestion is the approving command within next.
	suggestion string
	// approve is the approval that policies give; nil for none.
	approve *ApproveEffect
}

const (
	// codeComposed is the code after which Crossplane carries on with the other
	// composed resources; after a 403 it abandons the whole composite.
	codeComposed = 422
	codeInternal = 500
)

// allow a change of the class that is known so far.
func (ev *evaluation) allow(r Reason) verdict {
	return allowAs(ev.effectiveClass(), r)
}

func allowAs(class Class, r Reason) verdict {
	return verdict{Decision: Decision{Allowed: true, Class: class, Reason: r}}
}

// refuse a change of the class that is known so far (KR-05-23, KR-05-24).
func (ev *evaluation) refuse(r refusal) verdict {
	return refuseAs(ev.Facts, ev.effectiveClass(), r)
}

// refuseAs is refuse for a given class. The code for Crossplane's apply differs: of a 403
// it gives up the whole composite (KR-05-24).
func refuseAs(f *facts.Facts, class Class, r refusal) verdict {
	v := verdict{Decision: Decision{Class: class, Reason: r.reason, Code: r.code, Message: zMessage(f, r), Why: r.why, Approve: r.approve}}
	// An internal error keeps its code: Crossplane retries it, but not a request
	// that is invalid.
	if subject.IsComposedApply(f.Manager) && r.code != codeInternal {
		v.Code = codeComposed
		if f.Options.ComposedRefusalCode != 0 {
			v.Code = f.Options.ComposedRefusalCode
		}
	}
	return v
}

// decision by a verdict, before the edits of the object. What the verdict leaves open
// is that of the change, or of the deletion of its external resource.
func (ev *evaluation) decision(v verdict) Decision {
	d := v.Decision
	d.Phase, d.Changes = ev.class.phase, ev.Changes
	d.Mode, d.ID = cmp.Or(d.Mode, ev.Mode), cmp.Or(d.ID, ev.class.id, ev.deletion.id)
	d.Report, d.Suggestion = cmp.Or(d.Report, ev.deletion.report), cmp.Or(d.Suggestion, ev.deletion.suggestion)
	if d.Allowed {
		d.Claim = cmp.Or(d.Claim, ev.deletion.claim)
		d.Orphans = ev.deletion.orphans
	}
	return ev.withHeld(v, d)
}

// zMessage of a refusal: what, by whom, why, what to do next.
func zMessage(f *facts.Facts, r refusal) string {
	by := ""
	if f.Req.User.Name != "" {
		by = " by " + f.Req.User.Name
	}
	return string(r.reason) + ": " + zWhat(f) + by + " is not allowed: " + r.why + ". " + r.next
}

// zWhat is attempted.
func zWhat(f *facts.Facts) string {
	ref := identity.Describe(f.Req.Ref())
	switch f.Req.Operation {
	case Create:
		return "creating " + ref
	case Delete:
		return "deleting " + ref
	}
	if len(f.Changes) == 0 {
		return "changing " + ref
	}
	return "changing " + change.Summary(f.Changes, 5) + " of " + ref
}

func rejection(ref parent.Ref, kind identity.Kind, r v1alpha1.Rejection) refusal {
	return refusal{code: 403, reason: ReasonRejected, why: identity.Rejected(ref, r),
		next: fmt.Sprintf("Remove the entry from annotation %s if that no longer holds: kubectl edit %s",
			v1alpha1.AnnotationKeyRejections, identity.Target(ref, kind))}
}
