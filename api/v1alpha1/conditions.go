package v1alpha1

// ConditionKausality is the type of the condition that the composition function
// sets on a composite, and by which parents find out that it holds a change.
const ConditionKausality = "Kausality"

// ConditionSettled is the type of the condition by which the composition function remembers the last intent that settled, where no
// webhook does. Composed resources carry it as AnnotationKeySettledIntent, but there may be none. Its status is True, and its
// reason Generation_N_T: the generation of the composite, and the time of the intent in seconds since 1970.
const ConditionSettled = "KausalitySettled"

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
