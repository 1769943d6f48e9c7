package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hop is one step of a trace: an intent on one object (KR-07-01).
type Hop struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name is empty where generateName left it open at admission.
	Name string `json:"name,omitempty"`
	// Namespace where it differs from the carrier's.
	Namespace string `json:"namespace,omitempty"`
	// ClusterScoped is true for a cluster-scoped object on a namespaced carrier.
	ClusterScoped bool `json:"clusterScoped,omitempty"`
	// Generation of the object after the write; absent for kinds without one.
	Generation int64 `json:"generation,omitempty"`
	// User who made the change; empty where unknown.
	User string `json:"user"`
	// Timestamp of the write, as managedFields have it, or else of its admission, RFC 3339 UTC, whole seconds; absent where unknown.
	Timestamp metav1.Time `json:"timestamp,omitzero"`
	// Labels from the object's own trace-* annotations.
	Labels map[string]string `json:"labels,omitempty"`
	// Unattributed is true where the intent was made while it was not observed.
	Unattributed bool `json:"unattributed,omitempty"`
	// Approval that let an approved drift through.
	Approval *HopApproval `json:"approval,omitempty"`
	// Unrequested is true where the change passed although no intent of the parent
	// explains it: nothing before this hop initiated it.
	Unrequested bool `json:"unrequested,omitempty"`
	// Passed is why an unrequested change passed; empty for other changes.
	Passed Passed `json:"passed,omitempty"`
	// Causes of the change other than an intent on the parent, at most MaxHopCauses.
	// Several where they cannot be distinguished, or where all of them made it. On a
	// hop that is not unrequested the intent before it is a cause as well. nil where
	// the intent is the only cause, and for changes by users.
	Causes []HopCause `json:"causes,omitempty"`
	// Settled is set by the composition function on the composite's hop where
	// no webhook keeps settled-generation: the composite settled at this hop.
	Settled bool `json:"settled,omitempty"`
}

// Passed is why an unrequested change passed.
type Passed string

// Why unrequested changes pass.
const (
	// PassedLog: the mode of the object is log.
	PassedLog Passed = "Log"
	// PassedApproval: an approval matches it; the hop names it.
	PassedApproval Passed = "Approval"
	// PassedPolicy: an ApprovalPolicy or ClusterApprovalPolicy matches it; the hop names it.
	PassedPolicy Passed = "Policy"
	// PassedUpgrade: an UpgradeAllowance permits it; the hop names it.
	PassedUpgrade Passed = "Upgrade"
	// PassedBreakGlass: one approver used break glass.
	PassedBreakGlass Passed = "BreakGlass"
)

// CauseKind is what a HopCause names.
type CauseKind string

// Kinds of causes.
const (
	// CauseComposition: a revision of a Composition.
	CauseComposition CauseKind = "CompositionRevision"
	// CauseFunction: a revision of a Function in the pipeline of the Composition.
	CauseFunction CauseKind = "FunctionRevision"
	// CauseGraph: a GraphRevision of kro, which is a revision of a ResourceGraphDefinition.
	CauseGraph CauseKind = "GraphRevision"
	// CauseImage: an image that the controller runs.
	CauseImage CauseKind = "Image"
	// CauseController: the parent's controller, where its build is not known or did
	// not change.
	CauseController CauseKind = "Controller"
	// CauseUser: another user than the parent's controller.
	CauseUser CauseKind = "User"
	// CauseEdit: a user other than the parent's controller changed the object itself, and the change would
	// revert that. The name is the user's, and CauseUnknownEditor where no trace has it.
	CauseEdit CauseKind = "Edit"
)

// IsRevision reports whether causes of a kind are revisions, which have authors.
func (k CauseKind) IsRevision() bool {
	return k == CauseComposition || k == CauseFunction || k == CauseGraph
}

// CauseUnknownEditor is the name of a cause of kind CauseEdit whose user was not observed.
const CauseUnknownEditor = "unknown"

// HopCause is a cause of a change, in a hop.
type HopCause struct {
	Kind CauseKind `json:"kind"`
	// Name of the revision, image, controller or user, at most MaxCauseName bytes.
	Name string `json:"name"`
	// Author who made that revision; empty where unknown, and for images,
	// controllers and users.
	Author string `json:"author,omitempty"`
	// Claimed is true where Author is from a trace that other clients may have
	// written: that of a Composition, Function or graph that is not guarded, or its copy in an earlier revision.
	Claimed bool `json:"claimed,omitempty"`
	// Manager is who wrote the revision, or the edited field, where no trace has it: the field manager and operation of
	// the last write of the spec, as in "kubectl (Apply)". Clients choose the name of their
	// manager: it is a claim. Empty where Author is known, and where unknown.
	Manager string `json:"manager,omitempty"`
}

// MaxHopCauses is how many causes a hop has; MaxCauseName is how long their names and
// authors are, in bytes.
const (
	MaxHopCauses = 4
	MaxCauseName = 253
)

// HopApproval names the approval behind an approved drift.
type HopApproval struct {
	// Claim is the id of the use in the parent's claims; empty for modes other
	// than once.
	Claim string `json:"claim,omitempty"`
	// Content is the content hash of the approval.
	Content string `json:"content,omitempty"`
	// Policy that approved it, as in ApprovalPolicy/NAMESPACE/NAME or
	// UpgradeAllowance/NAME; empty for approvals on the parent.
	Policy string `json:"policy,omitempty"`
	// Mode of the approval.
	Mode ApprovalMode `json:"mode,omitempty"`
	// Digest is the id of the difference that was let through.
	Digest string `json:"digest,omitempty"`
	// Reason that the approver gave, at most MaxCauseName bytes; empty for none.
	Reason string `json:"reason,omitempty"`
	// By names who approved, in the order of their votes; nil where that is unknown, as for
	// mode always and for policies.
	By []Vote `json:"by,omitempty"`
}

// Vote is an approval by one user, as the API server authenticated them.
type Vote struct {
	User string `json:"user"`
	// At is when the vote was cast, RFC 3339 UTC, whole seconds.
	At metav1.Time `json:"at"`
	// Groups of the user at that time, of those that ApprovalRules name.
	Groups []string `json:"groups,omitempty"`
	// Via is the field manager of the request: information, which nothing is decided by.
	Via string `json:"via,omitempty"`
	// Machine: the user is a ServiceAccount or another system user.
	Machine bool `json:"machine,omitempty"`
	// OnBehalfOf is for whom the user acted, as the authenticator has it; empty for itself.
	OnBehalfOf string `json:"onBehalfOf,omitempty"`
	// BreakGlass is the reason for which the user approves alone; empty for an ordinary vote.
	BreakGlass string `json:"breakGlass,omitempty"`
	// Reason that this user gave, at most MaxCauseName bytes; empty for none, and in a trace where all gave the same.
	Reason string `json:"reason,omitempty"`
	// Author: the user had requested the deletion before the vote. Such a vote does not count where a rule has notAuthors.
	Author bool `json:"author,omitempty"`
}

// Initiator of an intent of an object, in the authors annotation.
type Initiator struct {
	// User at the origin of the trace; empty where that is unknown.
	User string `json:"user"`
	// Generation of the object after the last intent that this user initiated.
	Generation int64 `json:"generation"`
}

// MaxInitiators bounds the users in the authors annotation; the oldest are dropped.
const MaxInitiators = 16
