package facts

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/external"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Options of an Evaluator. The zero value of each is its default.
type Options struct {
	// DefaultMode is v1alpha1.ModeLog where empty.
	DefaultMode v1alpha1.Mode
	// Identify selects how the parent's controller is identified.
	Identify Identify
	// ExpectUntil selects how long changes are expected after an intent.
	ExpectUntil ExpectUntil
	// ComposedRefusalCode is the HTTP code of refusals to Crossplane's own
	// apply of composed resources; 422 where 0 (KR-05-24).
	ComposedRefusalCode int32
	// ApproverRBAC requires World.MayApprove of users who set approvals and the like; ApproverRBACOff where empty.
	ApproverRBAC ApproverRBAC
	// CloseTo are the verbs of a closed gate beside Observe: none, or
	// LateInitialize.
	CloseTo []v1alpha1.Verb
	// CarryPendingDrift opens the gate although the external resource differs
	// outside of the accepted change.
	CarryPendingDrift bool
	// Ignore selects external differences that are ignored; nil for none.
	Ignore external.Rules
	// Provenance is recorded in external systems where no policy of the object has it otherwise.
	Provenance []v1alpha1.Provenance
	// Deadline of the gate's openings where no policy of the object has another; 0 where the adapter opens no gate.
	Deadline time.Duration
	// KeepIntent: the trace of an unrequested change begins with that of the parent, whose
	// last intent is recorded nowhere else (KR-07-09).
	KeepIntent bool
	// Unreported: Reports of decisions are not sent. They are present where there is
	// something to report, and hold no Drift.
	Unreported bool
	// Remember what is refused or logged as drift in Decision.Drift, for the Request.Held of later requests.
	Remember bool
	// Separates: the adapter writes Decision.Rest. Otherwise a change is refused if a part of it was held before.
	Separates bool
}

// ApproverRBAC is the value of --approver-rbac (KR-02-13).
type ApproverRBAC string

const (
	// ApproverRBACOff requires no right but where an ApprovalRule matches (KR-14-60).
	ApproverRBACOff ApproverRBAC = "false"
	// ApproverRBACOn requires the verb approve on the subresource approval of the object's resource.
	ApproverRBACOn ApproverRBAC = "true"
	// ApproverRBACResource requires the verb on that subresource or, with a warning, on the resource itself.
	ApproverRBACResource ApproverRBAC = "resource"
)

// Required reports whether the right is required everywhere.
func (a ApproverRBAC) Required() bool { return a == ApproverRBACOn || a == ApproverRBACResource }

// Identify is the value of --identify-controller.
type Identify string

const (
	// IdentifyAuto applies all rules in their order (KR-04-06).
	IdentifyAuto Identify = "auto"
	// IdentifyUserHash applies the rule about users alone.
	IdentifyUserHash Identify = "user-hash"
	// IdentifyFieldManager applies the rules about field managers alone.
	IdentifyFieldManager Identify = "field-manager"
)

// ExpectUntil is the value of --expect-until.
type ExpectUntil string

const (
	// ExpectUntilConverged ends with the latch (KR-03-05).
	ExpectUntilConverged ExpectUntil = "converged"
	// ExpectUntilObserved ends when the controller observed the generation, converged
	// or not (KR-03-04).
	ExpectUntilObserved ExpectUntil = "observed"
)
