package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	// Destroys: the run of a Workspace that it is (or, closed, was) open for may also destroy
	// what it manages, in part. The deletion of the Workspace needs Delete in Verbs.
	Destroys bool `json:"destroys,omitempty"`
	// Generation of the managed resource that the transition brought about.
	Generation int64 `json:"generation,omitempty"`
	// Intent is the intent generation of the managed resource that the transition
	// left as it was, where its trace and managedFields show another one for
	// Generation; 0 where they do not.
	Intent int64 `json:"intent,omitempty"`
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

// Reasons of a gate's transitions: the values of Gate.Reason, and the reasons
// of the events about it. Gate.Reason may hold others in objects that a newer
// version wrote; such a value has no meaning to this one.
const (
	// GateReasonInstalled: an object that existed before Kausality guarded it
	// was idle, and its gate was closed for the first time.
	GateReasonInstalled = "Installed"

	// GateReasonCreated: the object was created, open for what a creation needs.
	GateReasonCreated = "Created"
	// GateReasonChanged: a change of the object was allowed, and the gate was
	// opened for the paths of that change.
	GateReasonChanged = "Changed"
	// GateReasonApproved: an external difference was approved, and the gate was
	// opened for it.
	GateReasonApproved = "Approved"
	// GateReasonAllowed: an AllowancePolicy allows an external difference, and
	// the gate was opened for it.
	GateReasonAllowed = "Allowed"
	// GateReasonDeletionApproved: the deletion of the external resource was
	// approved, and the gate was opened for Delete.
	GateReasonDeletionApproved = "DeletionApproved"

	// GateReasonConfirmed: the provider carried out what the gate was opened
	// for, and the gate was closed.
	GateReasonConfirmed = "Confirmed"
	// GateReasonExpired: the gate was closed by its deadline, and the provider
	// had not confirmed that it carried out the change.
	GateReasonExpired = "ExpiredUnconfirmed"
	// GateReasonWindow: a window of an ApprovalRule closed before the provider began
	// what the gate was opened for by an approval. The approval is not used up.
	GateReasonWindow = "WindowClosed"
	// GateReasonFrozen: a freeze began before the provider confirmed what the gate was opened for. What
	// was accepted is carried out when it ends.
	GateReasonFrozen = "Frozen"
	// GateReasonNothing: a change of the object was accepted that changes
	// nothing outside the cluster; the gate was closed again.
	GateReasonNothing = "NothingToDo"
	// GateReasonPending: a change was accepted, and the gate stays closed,
	// because the external resource differs in fields that the change did not
	// touch and that opening would let the provider change, too.
	GateReasonPending = "ExternalDriftPending"
	// GateReasonPaused: a change was accepted while the managed resource is paused. Its provider reports
	// nothing that happens meanwhile; the gate opens once it has observed the external resource again.
	GateReasonPaused = "Paused"
	// GateReasonRestored: the author's management policies were restored, as in
	// mode log.
	GateReasonRestored = "Restored"
	// GateReasonRefused: the provider's runtime does not accept the set of
	// management policies that was written; another set was chosen.
	GateReasonRefused = "PoliciesNotSupported"
)
