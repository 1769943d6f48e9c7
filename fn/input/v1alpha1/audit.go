package v1alpha1

// Audit is what the function reports as the output of an Operation's step. It
// is not an object of the API server.
type Audit struct {
	// APIVersion and Kind are kausality.fn.crossplane.io/v1alpha1 and Audit.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Objects is the number of objects that were checked.
	Objects int `json:"objects"`
	// Findings is the number of findings on all of them.
	Findings int `json:"findings"`
	// Resources that were checked, those with findings first, at most
	// MaxAudited.
	Resources []Audited `json:"resources,omitempty"`
	// Omitted is the number of further objects.
	Omitted int `json:"omitted,omitempty"`
}

// KindAudit of an Audit.
const KindAudit = "Audit"

// MaxAudited is how many objects an Audit lists: it is stored in the status of
// the Operation.
const MaxAudited = 200

// Audited is one object that was checked.
type Audited struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Phase of the object: initializing, initialized or deleting.
	Phase string `json:"phase"`
	// Initiator is the user whose change led to its last one, "unattributed" if
	// unknown; empty if it has no trace.
	Initiator string `json:"initiator,omitempty"`
	// Origin is the object that the initiator changed, with its generation.
	Origin string `json:"origin,omitempty"`
	// IntentGeneration is the generation of its last intent.
	IntentGeneration int64 `json:"intentGeneration,omitempty"`
	// Gate is open or closed; empty if there is none.
	Gate string `json:"gate,omitempty"`
	// Findings on it; empty if there is none.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is a fact that users should know.
type Finding struct {
	// Reason, machine-readable.
	Reason FindingReason `json:"reason"`
	// Message for users.
	Message string `json:"message"`
	// Approve is the command that approves the difference; empty if there is
	// nothing to approve.
	Approve string `json:"approve,omitempty"`
}

// FindingReason is the machine-readable reason of a Finding.
type FindingReason string

const (
	// FindingFrozen: no child is changed until it is unfrozen.
	FindingFrozen FindingReason = "Frozen"
	// FindingHeld: a change is held.
	FindingHeld FindingReason = "Held"
	// FindingInvalidAnnotation: a user annotation does not parse.
	FindingInvalidAnnotation FindingReason = "InvalidAnnotation"
	// FindingExternalDrift: the external resource differs from its desired state.
	FindingExternalDrift FindingReason = "ExternalDrift"
	// FindingExternalUnknown: nothing can be compared, so that external drift would
	// not be detected.
	FindingExternalUnknown FindingReason = "ExternalDriftUnknown"
	// FindingUngated: the provider may change the external resource at any time.
	FindingUngated FindingReason = "Ungated"
	// FindingUnconfirmed: the gate closed at its deadline, or should have.
	FindingUnconfirmed FindingReason = "Unconfirmed"
	// FindingUntraced: it has no trace.
	FindingUntraced FindingReason = "Untraced"
	// FindingUnattributed: its last intent was not observed.
	FindingUnattributed FindingReason = "Unattributed"
	// FindingUnsettled: it has not settled since its last intent, so that every
	// change of its children is expected.
	FindingUnsettled FindingReason = "Unsettled"
	// FindingLogMode: its mode is log, although the Input has enforce.
	FindingLogMode FindingReason = "LogMode"
)
