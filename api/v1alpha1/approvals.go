package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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
	// ClaimUnreviewed: the approval was written while no webhook reviewed the object. It is ignored until it is
	// given again. No object stores this state.
	ClaimUnreviewed ClaimState = "unreviewed"
	// ClaimSeal marks the last element of the list: its ID shows that Kausality wrote those before it.
	ClaimSeal ClaimState = "seal"
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
	// Bound is the whole digest of the difference that was known under the id of the approval when it was given: it approves no other
	// of that id. Empty where none was known, and for an approval of no single difference.
	Bound string `json:"bound,omitempty"`
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
	// Counted of a claim that is used are the votes by which the change passed, where those are others than By: votes under
	// other claims of the difference, and none that did not count. nil where they are By.
	Counted []Vote `json:"counted,omitempty"`
}

// MaxVotes is how many users a claim names; MaxVoted is how many approvals one object
// stores the votes of.
const (
	MaxVotes = 32
	MaxVoted = 64
)

// Spent reports whether the approval was used, is out of date, or was not reviewed.
func (c Claim) Spent() bool {
	return c.State == ClaimUsed || c.State == ClaimPruned || c.State == ClaimUnreviewed
}

// ClaimChild is the child of a claim as it was before the change.
type ClaimChild struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	UID        types.UID `json:"uid,omitempty"`
	// Version is the generation, or the resourceVersion for kinds without one;
	// empty on CREATE and DELETE.
	Version string `json:"version,omitempty"`
}
