package v1alpha1

// Provenance is a way to record the cause of a change in an external system.
// +kubebuilder:validation:Enum=AWSTags;TerraformEnv
type Provenance string

const (
	// ProvenanceAWSTags sets the tags kausality.io/trace-id, initiator and origin
	// in spec.forProvider.tags of managed resources of AWS.
	ProvenanceAWSTags Provenance = "AWSTags"
	// ProvenanceTerraformEnv sets the environment variables KAUSALITY_TRACE_ID,
	// KAUSALITY_INITIATOR, KAUSALITY_ORIGIN, KAUSALITY_ALLOWED and
	// KAUSALITY_ALLOWED_UNTIL in spec.forProvider.env of Workspaces.
	ProvenanceTerraformEnv Provenance = "TerraformEnv"
)

// ExternalSettings is what is recorded in external systems.
type ExternalSettings struct {
	// Provenance lists the ways to record the cause of a change in an external
	// system: the id of the trace, its initiator, and the object that the
	// initiator changed. AWSTags sets the tags kausality.io/trace-id,
	// kausality.io/initiator and kausality.io/origin on managed resources of AWS
	// (an API group with "aws" in it) if spec.forProvider.tags is a map, or a list
	// of key and value. TerraformEnv sets environment variables of Workspaces of
	// provider-terraform and provider-opentofu: KAUSALITY_TRACE_ID,
	// KAUSALITY_INITIATOR and KAUSALITY_ORIGIN, and while the gate is open
	// KAUSALITY_ALLOWED (apply, destroy) and KAUSALITY_ALLOWED_UNTIL; each also as
	// TF_VAR_kausality_trace_id and so on where an inline module declares the
	// variable. They change only together with an accepted change; on their own
	// they would be drift.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Provenance []Provenance `json:"provenance,omitempty"`
}
