package input

// APIVersion and Kind of the input.
const (
	APIVersion = "pt.fn.crossplane.io/v1beta1"
	Kind       = "Resources"
)

// Resources is the input: the templates of the resources to compose.
type Resources struct {
	APIVersion string         `json:"apiVersion,omitempty"`
	Kind       string         `json:"kind,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`

	// Resources in the order in which they are rendered. At least one.
	Resources []Template `json:"resources"`
}

// A Template says how one composed resource comes about.
type Template struct {
	// Name of the template, unique within the input. It is the composed
	// resource's name inside the pipeline, not its metadata.name.
	Name string `json:"name"`

	// Base of the composed resource. Nil means that an earlier step of the
	// pipeline has composed a resource of this name, which is then patched.
	Base map[string]any `json:"base,omitempty"`

	// Patches in the order in which they are applied.
	Patches []Patch `json:"patches,omitempty"`

	// ReadinessChecks which must all hold. Empty means that the condition
	// Ready must be True.
	ReadinessChecks []ReadinessCheck `json:"readinessChecks,omitempty"`
}

// A CheckType is a kind of readiness check.
type CheckType string

// The readiness checks.
const (
	CheckNonEmpty       CheckType = "NonEmpty"       // the field exists
	CheckMatchString    CheckType = "MatchString"    // the field is this string
	CheckMatchInteger   CheckType = "MatchInteger"   // the field is this integer
	CheckMatchTrue      CheckType = "MatchTrue"      // the field is true
	CheckMatchFalse     CheckType = "MatchFalse"     // the field is false
	CheckMatchCondition CheckType = "MatchCondition" // the condition has this status
	CheckNone           CheckType = "None"           // always ready
)

// A ReadinessCheck of an observed composed resource.
type ReadinessCheck struct {
	Type           CheckType       `json:"type"`
	FieldPath      *string         `json:"fieldPath,omitempty"`
	MatchString    *string         `json:"matchString,omitempty"`
	MatchInteger   *int64          `json:"matchInteger,omitempty"`
	MatchCondition *MatchCondition `json:"matchCondition,omitempty"`
}

// MatchCondition is the condition that CheckMatchCondition asks for.
type MatchCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}
