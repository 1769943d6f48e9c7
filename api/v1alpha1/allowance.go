package v1alpha1

import (
	"encoding/json"
)

// FieldVerb is a kind of change of one field.
//
// +kubebuilder:validation:Enum=Insert;Delete;Mutate
type FieldVerb string

const (
	// FieldInsert adds a field or an item.
	FieldInsert FieldVerb = "Insert"
	// FieldDelete removes a field or an item.
	FieldDelete FieldVerb = "Delete"
	// FieldMutate changes the value of a field.
	FieldMutate FieldVerb = "Mutate"
)

// AllowedMutation is a field that may be changed.
type AllowedMutation struct {
	// JSONPath of the field, as in spec.template.spec.containers[*].image; it
	// covers what is below it. "*" is every field.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	JSONPath string `json:"jsonPath"`
	// Verbs: the kinds of change; all of them where empty.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	Verbs []FieldVerb `json:"verbs,omitempty"`
}

// UnmarshalJSON also reads the short form: a string that is the path.
func (m *AllowedMutation) UnmarshalJSON(data []byte) error {
	var path string
	if json.Unmarshal(data, &path) == nil {
		*m = AllowedMutation{JSONPath: path}
		return nil
	}
	type plain AllowedMutation
	return json.Unmarshal(data, (*plain)(m))
}

// Allowance is an entry of the allowances annotation: what the controller of the
// carrier may do to its children, or a provider to the external resource that
// the carrier represents (KR-06-06).
//
// +kubebuilder:object:generate=true
type Allowance struct {
	// APIVersion and Kind of the child; empty for any. Of APIVersion the group
	// counts.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// Relation is RelationControllerChild where empty.
	Relation Relation `json:"relation,omitempty"`
	// Verbs allowed, object-level for ControllerChild, the external system's for
	// External.
	Verbs []string `json:"verbs,omitempty"`
	// Mutations allowed with verb Update; empty means every field.
	Mutations []AllowedMutation `json:"mutations,omitempty"`
	// ExternalTarget as the policy gave it; not interpreted.
	ExternalTarget map[string]string `json:"externalTarget,omitempty"`
	// Generation of the carrier that caused it.
	Generation int64 `json:"generation,omitempty"`
	// Initiator who started the chain.
	Initiator string `json:"initiator,omitempty"`
	// Trace of the chain: origin first, the carrier's own hop last.
	Trace []AllowanceHop `json:"trace,omitempty"`
}

// AllowanceHop is one step of an allowance's trace.
type AllowanceHop struct {
	Kind string `json:"kind"`
	// Name is empty where generateName left it open at admission.
	Name string `json:"name,omitempty"`
	// Namespace where it differs from the carrier's.
	Namespace string `json:"namespace,omitempty"`
	// ClusterScoped is true for a cluster-scoped object on a namespaced carrier.
	ClusterScoped bool `json:"clusterScoped,omitempty"`
	// Generation of the object after the change.
	Generation int64 `json:"generation,omitempty"`
	// Field that changed, with concrete indices.
	Field string `json:"field,omitempty"`
	// Attestations by path, as the policy's capture requests.
	Attestations map[string]string `json:"attestations,omitempty"`
}

// LastUpgrade is the value of the last-upgrade annotation.
//
// +kubebuilder:object:generate=true
type LastUpgrade struct {
	// Name of the UpgradeAllowance.
	Name string `json:"name"`
	// Fingerprints that this object was upgraded from and to, newest last, at
	// most MaxHashes: none of them upgrades it once more.
	Fingerprints []string `json:"fingerprints,omitempty"`
}
