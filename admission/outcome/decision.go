package outcome

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	incoming "github.com/kausality-io/function-kausality/admission/request"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// PolicyClaimEffect claims a rule of an ApprovalPolicy in its status.
type PolicyClaimEffect struct {
	// Namespace and Name of the policy; a ClusterApprovalPolicy where Namespace is
	// empty.
	Namespace, Name string
	Claim           v1alpha1.PolicyClaim
	// Stale: a pending claim of the same use that is older than this is replaced.
	Stale time.Time
}

// Class of a change (docs/specification.md, section 4).
type Class string

const (
	// ClassNone: no desired-state change.
	ClassNone Class = ""
	// ClassSelf: the object's own controller writes to it.
	ClassSelf Class = "Self"
	// ClassExpected: the parent's controller carries out an intent.
	ClassExpected Class = "Expected"
	// ClassDrift: the parent's controller makes an unrequested change of a child.
	ClassDrift Class = "Drift"
	// ClassNewOrigin: another user starts a new chain of causes.
	ClassNewOrigin Class = "NewOrigin"
)

// Reason of a decision: machine-readable, in refusals and audit annotations.
type Reason string

// Reasons of refusals.
const (
	ReasonFrozen             Reason = "Frozen"
	ReasonRejected           Reason = "Rejected"
	ReasonDrift              Reason = "Drift"
	ReasonAllowanceMissing   Reason = "AllowanceMissing"
	ReasonExternalDeletion   Reason = "ExternalDeletionNotAllowed"
	ReasonParentNotFound     Reason = "ParentNotFound"
	ReasonParentUnreadable   Reason = "ParentUnreadable"
	ReasonInvalidAnnotation  Reason = "InvalidAnnotation"
	ReasonAnnotationTooLarge Reason = "AnnotationTooLarge"
	ReasonApproverForbidden  Reason = "ApproverForbidden"
	ReasonStaleRead          Reason = "StaleRead"
	ReasonWindowClosed       Reason = "WindowClosed"
)

// Reasons of permissions.
const (
	ReasonComponent     Reason = "Component"
	ReasonNoChange      Reason = "NoDesiredStateChange"
	ReasonNoParent      Reason = "NoControllerParent"
	ReasonBeingDeleted  Reason = "ObjectBeingDeleted"
	ReasonSelf          Reason = "SelfWrite"
	ReasonParentDeleted Reason = "ParentDeleting"
	ReasonInitializing  Reason = "ParentInitializing"
	ReasonExpected      Reason = "Expected"
	ReasonNewOrigin     Reason = "NewOrigin"
	ReasonUndetermined  Reason = "ControllerUndetermined"
	ReasonSelfHealing   Reason = "FollowsTheWorld"
	ReasonApproved      Reason = "Approved"
	ReasonUpgraded      Reason = "Upgraded"
	ReasonExcepted      Reason = "ApprovedByPolicy"
	ReasonDriftLogged   Reason = "DriftLogged"
)

// Answer to a request: what a step decides.
type Answer struct {
	Allowed bool
	// Unchanged: the write passes with all that is stored, metadata included, which is Rest (KR-18-06).
	Unchanged bool
	// Code is the HTTP status of a refusal.
	Code   int32
	Class  Class
	Reason Reason
	// Message of a refusal: the change, why it is refused, and what to do.
	Message string
	// Why is the reason within Message, as a clause: also of drift that passes
	// in log mode; empty for other allowed changes.
	Why string
	// Mode of the object, or of the managed resource that decides about a deletion.
	Mode v1alpha1.Mode
	// Resolution of a drift; "" for a change that is not drift.
	Resolution string
	// Digest of the difference; empty where nothing changed or there is no parent.
	Digest change.Digest

	// Claim to write before the change may pass; nil for none.
	Claim *identity.ClaimEffect
	// PolicyClaim to write before the change may pass; nil for none.
	PolicyClaim *PolicyClaimEffect
	// Approve to write although the request is refused: what is refused now passes
	// once the gate is open; nil for none.
	Approve *ApproveEffect
	// Exception is the rule of an ApprovalPolicy that approved it, or the
	// UpgradeAllowance; nil for none.
	Exception *ExceptionUse
	// Report to send; nil for none.
	Report *Report
	// Suggestion is the command that approves the refused change.
	Suggestion string
	// Lacks is what the votes for the refused change lack by the ApprovalRules that match it, as a clause; empty where none does.
	Lacks string
	// Needs are what each ApprovalRule that matches the refused change requires; nil for none.
	Needs []allowance.Need
	// Causes of a drift that was refused or logged (KR-07-10, KR-07-14); nil for other decisions.
	Causes []v1alpha1.HopCause
}

// Decision about a request.
type Decision struct {
	Answer
	// Warnings for the caller.
	Warnings []string
	Phase    v1alpha1.Phase
	// Changes of the desired state, the mask left aside.
	Changes []change.Change
	// Held is the refusal of the part of an allowed change that was held before the last intent (KR-05-56); nil for
	// none. The edits of the object are those of Rest then, which is the object without that part.
	Held *Decision
	Rest *unstructured.Unstructured
	// Before: all that is refused was held before the last intent.
	Before bool
	// Drift that is refused or logged, to be remembered until it is approved or no longer wanted; nil for none, and
	// without Options.Remember.
	Drift *incoming.Held
	// Trace that this request writes; nil where the stored one is kept.
	Trace trace.Trace

	// Annotations to set on the object itself; nil values remove.
	Annotations map[string]*string
	// ChangesUserAnnotation: this write sets or removes a user annotation other than a trace label,
	// as a freeze, which counts for the very next request.
	ChangesUserAnnotation bool
	// Later are the annotations to set on the object once a change through /scale
	// has landed, whose request cannot take them; nil for none.
	Later map[string]*string
	// ManagementPolicies to set on the object itself; nil leaves them.
	ManagementPolicies []string
	// Fields to set on the object itself, by JSON pointer; nil for none.
	Fields map[string]any
	// Gate transition of this write, nil for none.
	Gate *v1alpha1.Gate
	// Unopened: the allowed change is about the external resource, and no allowance opens the gate for it.
	Unopened bool
	// Orphans are managed resources whose external resources a policy leaves behind.
	// Each gets the annotation deletion before the request is allowed; nil for none.
	Orphans []parent.Ref
}

// ApproveEffect approves, on behalf of a policy, what a policy allows: the gate
// opens by approvals. It is written unless the annotation exists.
type ApproveEffect struct {
	Holder     parent.Ref
	Key, Value string
}

// ExceptionUse names a rule of an ApprovalPolicy or UpgradeAllowance.
type ExceptionUse struct {
	// Policy as in ApprovalPolicy/NAMESPACE/NAME, ClusterApprovalPolicy/NAME or
	// UpgradeAllowance/NAME.
	Policy string
	// Rule in the spec, as in rules[0]; allow of an UpgradeAllowance.
	Rule string
}

// Report of a drift.
type Report struct {
	// Drift to record; empty under Options.Unreported.
	Drift v1alpha1.DriftSpec
	// ParentRef owns the Drift object.
	ParentRef parent.Ref
	Parent    *parent.State
	// Holder is the composition function where that holds the change; empty for a decision.
	Holder v1alpha1.DriftHolder
	// Held is what is remembered of it; empty for nothing.
	Held v1alpha1.HeldDrift
	// Separated: the write passes without it (KR-05-62).
	Separated bool
	// Votes for it, and what they lack, where ApprovalRules match it (KR-14-12).
	Votes []v1alpha1.Vote
	Lacks string
	// Snoozed: recorded without a notification.
	Snoozed bool
	// Recurs: an approval of exactly this difference was used up. It is another
	// occurrence, which can be approved again (KR-05-35).
	Recurs bool
	// Requester is the user whose deletion was refused; empty for a machine, and other changes.
	Requester string
	// Repeat: a DELETE was refused to a controller that carries out the decision of
	// another user; the gate repeats it once it is allowed (KR-08-13).
	Repeat bool
}

// Resolutions of a drift, for audit and metrics.
const (
	ResolutionApproved = "approved"
	ResolutionUpgraded = "upgraded"
	ResolutionRejected = "rejected"
	ResolutionRefused  = "refused"
	ResolutionLogged   = "logged"
	ResolutionSnoozed  = "snoozed"
)
