package v1alpha1

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
	// GateReasonRestored: the author's management policies were restored, as in
	// mode log.
	GateReasonRestored = "Restored"
	// GateReasonRefused: the provider's runtime does not accept the set of
	// management policies that was written; another set was chosen.
	GateReasonRefused = "PoliciesNotSupported"
)
