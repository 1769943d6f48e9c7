package v1alpha1

// Audit is what the function reports as the output of an Operation's step. It
// is no object of the API server.
type Audit struct {
	// APIVersion and Kind say what it is: kausality.fn.crossplane.io/v1alpha1,
	// Audit.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Objects that were looked at.
	Objects int `json:"objects"`
	// Findings on all of them.
	Findings int `json:"findings"`
	// Resources that were looked at, those with findings first, at most
	// MaxAudited.
	Resources []Audited `json:"resources,omitempty"`
	// Omitted is how many more there are.
	Omitted int `json:"omitted,omitempty"`
}

// KindAudit of an Audit.
const KindAudit = "Audit"

// MaxAudited is how many objects an Audit lists: it is stored in the status of
// the Operation.
const MaxAudited = 200

// Audited is one object that was looked at.
type Audited struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Phase of its life: initializing, initialized or deleting.
	Phase string `json:"phase"`
	// Initiator is the person whose change led to its last one, "unattributed"
	// where that is not known; empty where it has no trace.
	Initiator string `json:"initiator,omitempty"`
	// Origin is the object that person changed, with its generation.
	Origin string `json:"origin,omitempty"`
	// IntentGeneration is that of its own last intent.
	IntentGeneration int64 `json:"intentGeneration,omitempty"`
	// Gate is open or closed where there is one.
	Gate string `json:"gate,omitempty"`
	// Findings on it; none where all is as it should be.
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is something a person should know.
type Finding struct {
	// Reason in one word.
	Reason FindingReason `json:"reason"`
	// Message for people.
	Message string `json:"message"`
	// Approve is the command that approves what is found; empty where there is
	// nothing to approve.
	Approve string `json:"approve,omitempty"`
}

// FindingReason says what was found.
type FindingReason string

const (
	// FindingFrozen: no child is changed until it is unfrozen.
	FindingFrozen FindingReason = "Frozen"
	// FindingHeld: a change is held back.
	FindingHeld FindingReason = "Held"
	// FindingInvalidAnnotation: what a person wrote does not parse.
	FindingInvalidAnnotation FindingReason = "InvalidAnnotation"
	// FindingExternalDrift: the external resource is not as it should be.
	FindingExternalDrift FindingReason = "ExternalDrift"
	// FindingExternalUnknown: nothing can be compared, so nobody would notice.
	FindingExternalUnknown FindingReason = "ExternalDriftUnknown"
	// FindingUngated: the provider may change the external resource at any time.
	FindingUngated FindingReason = "Ungated"
	// FindingUnconfirmed: the gate closed at its deadline, or should have.
	FindingUnconfirmed FindingReason = "Unconfirmed"
	// FindingUntraced: it has no trace.
	FindingUntraced FindingReason = "Untraced"
	// FindingUnattributed: its last intent was made while nobody watched.
	FindingUnattributed FindingReason = "Unattributed"
	// FindingUnsettled: it has not settled since its last intent, so that every
	// change of its children is expected.
	FindingUnsettled FindingReason = "Unsettled"
	// FindingLogMode: its mode is log where enforce is asked for.
	FindingLogMode FindingReason = "LogMode"
)
