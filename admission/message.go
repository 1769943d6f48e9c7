package admission

import (
	"fmt"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// refusal before it is put into words.
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
	// codeComposed is what Crossplane answers with carrying on (facts 8).
	codeComposed = 422
	codeInternal = 500
)

func (ev *evaluation) refuse(r refusal) (bool, error) {
	ev.d.Allowed, ev.d.Reason, ev.d.Code, ev.d.Message, ev.d.Why = false, r.reason, r.code, ev.message(r), r.why
	ev.d.Annotations, ev.d.Later, ev.d.ManagementPolicies, ev.d.Fields, ev.d.Gate, ev.d.Claim = nil, nil, nil, nil, nil, nil
	ev.d.PolicyClaim, ev.d.Exception, ev.d.Approve = nil, nil, r.approve
	// An error of ours stays one: Crossplane retries it, where it does not come
	// back to what it was told is invalid.
	if subject.IsComposedApply(ev.manager) && r.code != codeInternal {
		ev.d.Code = codeComposed
		if ev.Options.ComposedRefusalCode != 0 {
			ev.d.Code = ev.Options.ComposedRefusalCode
		}
	}
	return true, nil
}

// message of a refusal: what, by whom, why, what next.
func (ev *evaluation) message(r refusal) string {
	by := ""
	if ev.req.User.Name != "" {
		by = " by " + ev.req.User.Name
	}
	return string(r.reason) + ": " + ev.what() + by + " is not allowed: " + r.why + ". " + r.next
}

// what is attempted.
func (ev *evaluation) what() string {
	ref := identity.Describe(ev.req.ref())
	switch ev.req.Operation {
	case Create:
		return "creating " + ref
	case Delete:
		return "deleting " + ref
	}
	if len(ev.changes) == 0 {
		return "changing " + ref
	}
	return "changing " + change.Summary(ev.changes, 5) + " of " + ref
}

func frozen(ref parent.Ref, kind identity.Kind, f *v1alpha1.Freeze) refusal {
	return refusal{code: 403, reason: ReasonFrozen,
		why:  identity.Frozen(ref, f),
		next: fmt.Sprintf("To unfreeze: kubectl annotate %s %s-", identity.Target(ref, kind), v1alpha1.AnnotationKeyFreeze)}
}

func rejection(ref parent.Ref, kind identity.Kind, r v1alpha1.Rejection) refusal {
	return refusal{code: 403, reason: ReasonRejected,
		why: identity.Rejected(ref, r),
		next: fmt.Sprintf("Remove the entry from annotation %s if that no longer holds: kubectl edit %s",
			v1alpha1.AnnotationKeyRejections, identity.Target(ref, kind))}
}
