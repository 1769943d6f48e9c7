package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Mode decides about drift that is not approved.
type Mode string

const (
	// ModeLog lets drift pass with a warning and a report.
	ModeLog Mode = "log"
	// ModeEnforce refuses drift.
	ModeEnforce Mode = "enforce"
)

// Phase of a parent's life.
type Phase string

const (
	// PhaseInitializing is before the parent settled for the first time.
	PhaseInitializing Phase = "initializing"
	// PhaseInitialized is after it. It is a high-water mark.
	PhaseInitialized Phase = "initialized"
	// PhaseDeleting is derived from the deletionTimestamp and never stored.
	PhaseDeleting Phase = "deleting"
)

// ApprovalMode is how long an approval holds (KR-05-32).
type ApprovalMode string

const (
	// ApprovalOnce is used exactly once, then removed.
	ApprovalOnce ApprovalMode = "once"
	// ApprovalGeneration holds until the next intent on the parent.
	ApprovalGeneration ApprovalMode = "generation"
	// ApprovalAlways holds until it is removed.
	ApprovalAlways ApprovalMode = "always"
)

// Relation of an approval or report to its child.
type Relation string

const (
	// RelationControllerChild is a change of a Kubernetes object; the default.
	RelationControllerChild Relation = "ControllerChild"
	// RelationExternal is a change of the external resource of a managed resource.
	RelationExternal Relation = "External"
)

// Verb of an external change, as in spec.managementPolicies.
type Verb string

// The verbs of Crossplane's managementPolicies.
const (
	VerbObserve        Verb = "Observe"
	VerbCreate         Verb = "Create"
	VerbUpdate         Verb = "Update"
	VerbDelete         Verb = "Delete"
	VerbLateInitialize Verb = "LateInitialize"
	VerbAll            Verb = "*"
)

// Held is what the composition function holds back of one composed resource.
// The same change gives the same value: there is no time in it.
type Held struct {
	// Reason of the refusal, as in Drift or Frozen.
	Reason string `json:"reason"`
	// Operation that is held: UPDATE, DELETE, or CREATE of another kind under
	// the same name in the Composition.
	Operation string `json:"operation"`
	// Paths of the fields that would change, sorted, at most MaxHeldPaths; none
	// where the resource as a whole would be deleted or replaced.
	Paths []string `json:"paths,omitempty"`
	// Difference has the first of them with their values, at most MaxHeldValues bytes.
	// Secret values are replaced.
	Difference []FieldDifference `json:"difference,omitempty"`
	// ID of the difference.
	ID string `json:"id,omitempty"`
	// Approve is the command that lets exactly this change through; empty where
	// an approval would not, as while the composite is frozen.
	Approve string `json:"approve,omitempty"`
	// Before: all of it was held before the last intent, which changes nothing of it
	// and does not wait for it.
	Before    bool `json:"before,omitempty"`
	HeldDrift `json:",inline"`
}

// HeldDrift is what a held change has of drift. A later intent does not allow it; nor does a freeze in between.
type HeldDrift struct {
	// Drift of an update by path, with a digest of the wanted value each. The items of
	// lists are named by their merge keys. HeldWhole stands for all paths, and for a
	// creation or deletion. Empty where nothing was refused as drift.
	Drift map[string]string `json:"drift,omitempty"`
	// Since is the intent of the composite after which it was first held.
	Since *SettledIntent `json:"since,omitempty"`
}

// HeldWhole is the path of HeldDrift that stands for all paths.
const HeldWhole = "*"

// MaxHeldDrift is how many paths a HeldDrift has; with more it has HeldWhole alone.
const MaxHeldDrift = 64

// MaxHeldPaths is how many paths a Held names.
const MaxHeldPaths = 16

// MaxHeldValues is the size in bytes of the paths and values of a Held's Difference: a
// composite may hold changes of hundreds of resources, which Crossplane receives in one
// message.
const MaxHeldValues = 2048

// HeldCreation is the creation of a composed resource that the composition
// function holds back. The resource does not exist and cannot carry a Held of
// its own. The same creation gives the same value: there is no time in it.
type HeldCreation struct {
	// Resource is its name in the Composition; never empty.
	Resource   string `json:"resource"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace of the object; empty for a cluster-scoped one.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object; empty where Crossplane generates one.
	Name string `json:"name,omitempty"`
	// Reason of the refusal, as in Drift or Frozen.
	Reason string `json:"reason"`
	// ID of the difference; empty where none was worked out, as while the
	// composite is frozen.
	ID string `json:"id,omitempty"`
	// Approve is the command that allows exactly this creation; empty where an
	// approval would not.
	Approve string `json:"approve,omitempty"`
	// Before: it was held before the last intent, which does not wait for it.
	Before    bool `json:"before,omitempty"`
	HeldDrift `json:",inline"`
}

// MaxHeldCreations is how many creations AnnotationKeyHeldCreations lists; the
// message of the condition counts the rest.
const MaxHeldCreations = 16

// SettledIntent is the last intent of a composite that the composition function
// knows to have settled, where no webhook keeps settled-generation.
type SettledIntent struct {
	// Generation of the composite at which the intent was first seen.
	Generation int64 `json:"generation"`
	// At is the time of the intent, RFC 3339 UTC, whole seconds.
	At metav1.Time `json:"at"`
	// State is a digest of the desired state without what Crossplane writes into it.
	State string `json:"state,omitempty"`
}

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
	// Timestamp of admission, RFC 3339 UTC, whole seconds; absent where unknown.
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
	// CauseImage: an image that the controller runs.
	CauseImage CauseKind = "Image"
	// CauseController: the parent's controller, where its build is not known or did
	// not change.
	CauseController CauseKind = "Controller"
	// CauseUser: another user than the parent's controller.
	CauseUser CauseKind = "User"
)

// HopCause is a cause of a change, in a hop.
type HopCause struct {
	Kind CauseKind `json:"kind"`
	// Name of the revision, image, controller or user, at most MaxCauseName bytes.
	Name string `json:"name"`
	// Author who made that revision; empty where unknown, and for images,
	// controllers and users.
	Author string `json:"author,omitempty"`
	// Claimed is true where Author is from a trace that other clients may have
	// written: that of a Composition or Function that is not guarded, or its copy in an earlier revision.
	Claimed bool `json:"claimed,omitempty"`
	// Manager is who wrote the revision where no trace has it: the field manager and operation of
	// the last write of the Composition's or Function's spec, as in "kubectl (Apply)". Clients choose the name of their
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
	// Author: the user had requested the deletion before the vote, which does not count where a rule has notAuthors.
	Author bool `json:"author,omitempty"`
}

// Initiator of an intent of an object, in the authors annotation.
type Initiator struct {
	// User at the origin of the trace; empty where that is unknown.
	User string `json:"user"`
	// Generation of the object after the last intent that this user initiated.
	Generation int64 `json:"generation"`
}

// MaxInitiators is how many users the authors annotation has, the last ones.
const MaxInitiators = 16

// Approval is an entry of the approvals annotation.
type Approval struct {
	// APIVersion, Kind and Name of the child; each may be "*".
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	// Resource is the composition resource name, instead of Name.
	Resource string `json:"resource,omitempty"`
	// Generation of the parent for which modes once and generation hold; 0
	// takes the parent's current one when the approval is admitted.
	Generation int64 `json:"generation,omitempty"`
	// Mode is ApprovalOnce where empty.
	Mode ApprovalMode `json:"mode,omitempty"`
	// Relation is RelationControllerChild where empty.
	Relation Relation `json:"relation,omitempty"`
	// Verbs approved, for RelationExternal; empty means Update.
	Verbs []Verb `json:"verbs,omitempty"`
	// Digest restricts the approval to the difference with that id.
	Digest string `json:"digest,omitempty"`
	// Reason, as text, for other users; of no effect.
	Reason string `json:"reason,omitempty"`
	// Expiry, RFC 3339: from then on it approves nothing. Absent for never.
	Expiry *metav1.Time `json:"expiry,omitempty"`
}

// Rejection is an entry of the rejections annotation.
type Rejection struct {
	// APIVersion, Kind and Name of the child; each may be "*".
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	// Resource is the composition resource name, instead of Name.
	Resource string `json:"resource,omitempty"`
	// Generation of the parent the rejection is about; 0 means always.
	Generation int64 `json:"generation,omitempty"`
	// Reason, as text; required.
	Reason string `json:"reason"`
}

// Freeze is the value of the freeze annotation, and the freeze of a Kausality policy.
type Freeze struct {
	// User who froze it, as that user declares.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	User string `json:"user,omitempty"`
	// Message is the reason, part of each refusal.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// At is when it was frozen.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// Expiry, RFC 3339: when it ends by itself. Absent for never.
	// +optional
	Expiry *metav1.Time `json:"expiry,omitempty"`
}

// Snooze is the value of the snooze annotation.
type Snooze struct {
	// Expiry, RFC 3339.
	Expiry  metav1.Time `json:"expiry"`
	User    string      `json:"user,omitempty"`
	Message string      `json:"message,omitempty"`
}

// ClaimState is the progress of the use of an approval.
type ClaimState string

const (
	// ClaimOpen: admitted, not used yet.
	ClaimOpen ClaimState = "open"
	// ClaimPending: claimed before the change was let through; whether it
	// landed is not yet known.
	ClaimPending ClaimState = "pending"
	// ClaimUsed: the change landed, or it cannot be shown that it did not.
	ClaimUsed ClaimState = "used"
	// ClaimPruned: the approval went stale; kept so that the same entry written
	// again by GitOps is no new approval.
	ClaimPruned ClaimState = "pruned"
)

// Claim is an entry of the claims annotation: what became of one approval of
// mode once or generation (KR-05-34). The approval itself is the user's and not
// rewritten; what has to be remembered about it is stored here.
type Claim struct {
	// Content hash of the approval.
	Content string     `json:"content"`
	State   ClaimState `json:"state"`
	// Generation of the parent the approval was admitted for.
	Generation int64 `json:"generation,omitempty"`
	// At is when the state was entered, RFC 3339 UTC, whole seconds.
	At metav1.Time `json:"at"`

	// ID of the use; it is approval.claim of the child's hop.
	ID string `json:"id,omitempty"`
	// Child the approval was used for.
	Child *ClaimChild `json:"child,omitempty"`
	// Relation is RelationExternal for a use by the gate.
	Relation Relation `json:"relation,omitempty"`
	// Digest is the id of the difference.
	Digest string `json:"digest,omitempty"`
	// User id of the requester: a hash of 128 bits. Earlier releases stored the
	// user hash.
	User string `json:"user,omitempty"`
	// Reason of the approval, at most MaxCauseName bytes; empty for none.
	Reason string `json:"reason,omitempty"`
	// Mode of the approval where Votes is set: the claim alone stores it.
	Mode ApprovalMode `json:"mode,omitempty"`
	// Votes: the approval is stored here, and its annotation is removed, so that the same
	// annotation by another user is another vote (KR-14-02).
	Votes bool `json:"votes,omitempty"`
	// Expiry of the approval where Votes is set; nil for none.
	Expiry *metav1.Time `json:"expiry,omitempty"`
	// By are the users who approved, at most MaxVotes.
	By []Vote `json:"by,omitempty"`
}

// MaxVotes is how many users a claim names; MaxVoted is how many approvals one object
// stores the votes of.
const (
	MaxVotes = 32
	MaxVoted = 64
)

// Spent reports whether the approval was used or is out of date.
func (c Claim) Spent() bool { return c.State == ClaimUsed || c.State == ClaimPruned }

// ClaimChild is the child of a claim as it was before the change.
type ClaimChild struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	UID        types.UID `json:"uid,omitempty"`
	// Version is the generation, or the resourceVersion for kinds without one;
	// empty on CREATE.
	Version string `json:"version,omitempty"`
}

// GateState of a managed resource.
type GateState string

const (
	// GateOpen lets the provider do what Verbs permit.
	GateOpen GateState = "open"
	// GateClosed lets the provider only observe.
	GateClosed GateState = "closed"
)

// Gate is the value of the gate annotation: the last transition of a managed
// resource's mask, written in the same request as the mask itself.
type Gate struct {
	State GateState `json:"state"`
	// Verbs that are (or, closed, were) let through.
	Verbs []Verb `json:"verbs,omitempty"`
	// Generation of the managed resource that the transition brought about.
	Generation int64 `json:"generation,omitempty"`
	// At is when it was opened, RFC 3339 UTC; the deadline counts from here.
	At metav1.Time `json:"at"`
	// DeleteAt is when it was opened for Delete, RFC 3339 UTC: nothing that is
	// opened later prolongs that. nil where Verbs hold no Delete, and in gates
	// of older versions, where it is At.
	DeleteAt *metav1.Time `json:"deleteAt,omitempty"`
	// Claim names the uses of approvals by which it is (or, closed, was) open,
	// comma-separated: ids in the claims of the managed resource, its XR or
	// Claim, and content hashes of approvals for the deletion of one of these
	// with all below it. Empty where no once approval is involved. A use that is
	// not finished is carried on by every transition.
	Claim string `json:"claim,omitempty"`
	// Digest is the id of the external difference that was approved.
	Digest string `json:"digest,omitempty"`
	// Paths of spec.forProvider that were allowed; empty means all.
	Paths []string `json:"paths,omitempty"`
	// Unproven: when the last change was accepted, the gate was open already, and
	// the external resource was in the requested state before the provider can
	// have observed the change. That state does not confirm the change: the
	// provider may still carry out an earlier one.
	Unproven bool `json:"unproven,omitempty"`
	// Reason of the transition: one of GateReason….
	Reason string `json:"reason,omitempty"`
	// External resource that the gate was opened or closed for, the last one that was
	// accepted. Where the managed resource has another one, nothing but an approval
	// with the id of a difference opens the gate. nil where it had no name and the
	// default provider config, and in gates of older versions.
	External *GateExternal `json:"external,omitempty"`
	// Observed is what status.atProvider showed once the provider had observed the
	// closed gate, where spec.forProvider cannot be compared with it. nil where it can,
	// while the gate is open, and until the provider has observed the closed gate.
	Observed *GateObserved `json:"observed,omitempty"`
	// Opened are the content hashes of approvals of mode generation or always that
	// opened it although nothing could be compared. They do not open it again for that,
	// and leave the list when the approval is removed.
	Opened []string `json:"opened,omitempty"`
}

// GateObserved is what a provider showed of an external state.
type GateObserved struct {
	// Generation of the managed resource at that time.
	Generation int64 `json:"generation,omitempty"`
	// Digests of values by their path: the first 16 hex digits of the SHA-256 of
	// their canonical JSON.
	Digests map[string]string `json:"digests,omitempty"`
}

// GateExternal identifies an external resource.
type GateExternal struct {
	// Name is the external name; a digest of it where it is long. Empty for none.
	Name string `json:"name,omitempty"`
	// Config is the provider config as kind/name; empty for the default one.
	Config string `json:"config,omitempty"`
}
