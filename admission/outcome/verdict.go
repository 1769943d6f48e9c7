package outcome

import (
	"fmt"
	"slices"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/facts"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/subject"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Passed returns why the change passes although it counts as drift; "" for other changes (KR-07-09).
func (v *Verdict) Passed() v1alpha1.Passed {
	switch v.Reason {
	case ReasonDriftLogged:
		return v1alpha1.PassedLog
	case ReasonUpgraded:
		return v1alpha1.PassedUpgrade
	case ReasonExcepted:
		return v1alpha1.PassedPolicy
	case ReasonApproved:
		if v.Approval != nil && slices.ContainsFunc(v.Approval.By, func(by v1alpha1.Vote) bool { return by.BreakGlass != "" }) {
			return v1alpha1.PassedBreakGlass
		}
		return v1alpha1.PassedApproval
	}
	return ""
}

// Warnings of a decision. Steps only add to them.
type Warnings []string

// Add appends warnings.
func (w *Warnings) Add(text ...string) { *w = append(*w, text...) }

// Claims reports whether the change passes by an approval that must be claimed.
func (v *Verdict) Claims() bool { return v.Claim != nil || v.PolicyClaim != nil }

// Verdict of a step. It has a Reason; a nil Verdict decides nothing, and an empty Mode is that of the object.
type Verdict struct {
	Answer
	// Approval that lets drift pass, for the hop; nil for none.
	Approval *v1alpha1.HopApproval
	// Upgrade that lets drift pass; nil for none.
	Upgrade *allowance.Upgrade
	// Withheld is the refusal of the half that the change passes without; nil for none.
	Withheld *Decision
	// Both: an intent and a cause of drift change the same path.
	Both bool
	// Logged is the drift that passes beside the changes that the intent causes; nil for none.
	Logged *request.Held
}

// Refusal holds the parts of a denial message.
type Refusal struct {
	Code   int32
	Reason Reason
	// Why, as a clause without a full stop.
	Why string
	// Next is what to do, as sentences.
	Next string
	// Suggestion is the approving command within next.
	Suggestion string
	// Approve is the approval that policies give; nil for none.
	Approve *ApproveEffect
}

const (
	// CodeComposed is the code after which Crossplane carries on with the other
	// composed resources; after a 403 it abandons the whole composite.
	CodeComposed = 422
	CodeInternal = 500
)

// Allow returns the verdict that a change of a class may pass.
func Allow(class Class, r Reason) *Verdict {
	return &Verdict{Answer: Answer{Allowed: true, Class: class, Reason: r}}
}

// Refuse returns the verdict that a change of a class may not pass (KR-05-23). The code for Crossplane's apply differs: of a 403
// it gives up the whole composite (KR-05-24).
func Refuse(f *facts.Facts, class Class, r Refusal) *Verdict {
	v := &Verdict{Answer: Answer{Class: class, Reason: r.Reason, Code: r.Code, Message: Message(f, r), Why: r.Why, Approve: r.Approve}}
	// An internal error keeps its code: Crossplane retries it, but not a request
	// that is invalid.
	if subject.IsComposedApply(f.Manager) && r.Code != CodeInternal {
		v.Code = CodeComposed
		if f.Options.ComposedRefusalCode != 0 {
			v.Code = f.Options.ComposedRefusalCode
		}
	}
	return v
}

// Message returns the message of a refusal: the change, the user who makes it, the reason, and what to
// do next.
func Message(f *facts.Facts, r Refusal) string {
	by := ""
	if f.Req.User.Name != "" {
		by = " by " + f.Req.User.Name
	}
	return string(r.Reason) + ": " + what(f) + by + " is not allowed: " + r.Why + ". " + r.Next
}

// what describes the attempted change, for messages.
func what(f *facts.Facts) string {
	ref := identity.Describe(f.Req.Ref())
	switch f.Req.Operation {
	case request.Create:
		return "creating " + ref
	case request.Delete:
		return "deleting " + ref
	}
	if len(f.Changes) == 0 {
		return "changing " + ref
	}
	return "changing " + change.Summary(f.Changes, 5) + " of " + ref
}

// Rejected returns the refusal of a change of a child that a rejection on an object matches. What names the child alone is
// withdrawn by the plugin; other entries, as those for all children, only with the annotation.
func Rejected(ref parent.Ref, kind identity.Kind, r v1alpha1.Rejection, child parent.Ref, of identity.Kind) Refusal {
	next := fmt.Sprintf("Remove the entry from annotation %s if that no longer holds: kubectl edit %s",
		v1alpha1.AnnotationKeyRejections, identity.Target(ref, kind))
	if child.Name != "" && r.Name == child.Name && r.Kind == child.Kind && r.Resource == "" {
		next = "If that no longer holds, withdraw it: kubectl kausality reject " + identity.Target(child, of) + " --withdraw"
	}
	return Refusal{Code: 403, Reason: ReasonRejected, Why: identity.Rejected(ref, r), Next: next}
}
