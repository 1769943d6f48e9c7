package v1alpha1

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
