package v1alpha1

// ConditionKausality is the type of the condition that the composition function
// sets on a composite, and by which parents find out that it holds a change.
const ConditionKausality = "Kausality"

// Reasons of ConditionKausality.
const (
	// ConditionReasonAllowed: every change is let through; the status is True.
	ConditionReasonAllowed = "Allowed"
	// ConditionReasonHeld: at least one change is held; the status is False, and
	// the held resources carry AnnotationKeyHeld.
	ConditionReasonHeld = "Held"
	// ConditionReasonFrozen: the composite is frozen and every change is held;
	// the status is False.
	ConditionReasonFrozen = "Frozen"
)
