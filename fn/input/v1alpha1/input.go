package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

const (
	// Group of the Input.
	Group = "kausality.fn.crossplane.io"
	// APIVersion of the Input.
	APIVersion = Group + "/v1alpha1"
	// Kind of the Input.
	Kind = "Input"
)

// Mode says what happens to a change that nobody asked for and nobody approved.
// +kubebuilder:validation:Enum=log;enforce
type Mode string

const (
	// ModeLog lets it pass and reports it.
	ModeLog Mode = "log"
	// ModeEnforce holds it back.
	ModeEnforce Mode = "enforce"
)

// ManagementPolicies says who masks spec.managementPolicies of managed
// resources.
// +kubebuilder:validation:Enum=Webhook;Managed
type ManagementPolicies string

const (
	// ManagementPoliciesWebhook leaves the field to Kausality's webhook and
	// gate; without them it stays as the pipeline wrote it.
	ManagementPoliciesWebhook ManagementPolicies = "Webhook"
	// ManagementPoliciesManaged has the function write the mask into the
	// desired state.
	ManagementPoliciesManaged ManagementPolicies = "Managed"
)

// Provenance is a way in which an external system is told who caused a change.
// +kubebuilder:validation:Enum=AWSTags;TerraformEnv
type Provenance string

const (
	// ProvenanceAWSTags sets the tags kausality.io/trace-id, initiator and origin
	// in spec.forProvider.tags of managed resources of AWS.
	ProvenanceAWSTags Provenance = "AWSTags"
	// ProvenanceTerraformEnv sets the environment variables KAUSALITY_TRACE_ID,
	// KAUSALITY_INITIATOR and KAUSALITY_ORIGIN in spec.forProvider.env of
	// Workspaces.
	ProvenanceTerraformEnv Provenance = "TerraformEnv"
)

// Input of the Kausality composition function. Everything in it is optional.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=crossplane
type Input struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Mode is "log" or "enforce". A composed resource's own annotation
	// kausality.io/mode goes before it.
	// +kubebuilder:default=log
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// SettleGrace is how long the composite and its resources must have been
	// ready without interruption before an intent counts as settled, as in
	// "10s" (the default). It matters only without a webhook.
	// +optional
	SettleGrace *metav1.Duration `json:"settleGrace,omitempty"`

	// Gate in front of the external resources of managed resources.
	// +optional
	Gate *Gate `json:"gate,omitempty"`

	// Policies that count for this Composition, beside those that PolicySelector
	// fetches. Each is the spec of an AllowancePolicy with a name.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Policies []Policy `json:"policies,omitempty"`

	// Upgrades that count for this Composition, beside those that PolicySelector
	// fetches. Each is the spec of an UpgradeAllowance with a name. What Crossplane
	// composes is upgraded where the revision of the Composition or of a function
	// in its pipeline is another than at the resource's last change.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Upgrades []Upgrade `json:"upgrades,omitempty"`

	// ServiceAccount is the user name under which Crossplane writes: of
	// UpgradeAllowances those for it count.
	// +kubebuilder:default="system:serviceaccount:crossplane-system:crossplane"
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// PolicySelector fetches the AllowancePolicies and UpgradeAllowances of the
	// cluster as required resources. Where these kinds are not installed, the
	// inline ones count alone, and the condition Kausality of the composite says
	// so. Crossplane needs to be able to list them.
	// +optional
	PolicySelector *PolicySelector `json:"policySelector,omitempty"`

	// External systems: what they are told.
	// +optional
	External *External `json:"external,omitempty"`
}

// Policy is an AllowancePolicy that stands in the Input.
type Policy struct {
	// Name of the policy, for messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	v1alpha1.AllowancePolicySpec `json:",inline"`
}

// Upgrade is an UpgradeAllowance that stands in the Input.
type Upgrade struct {
	// Name of the upgrade, for messages and the annotation last-upgrade.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	v1alpha1.UpgradeAllowanceSpec `json:",inline"`
}

// PolicySelector says which policies of the cluster count.
type PolicySelector struct {
	// MatchLabels are labels that a policy must have; all policies count where
	// none are given.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// External says what external systems are told.
type External struct {
	// Provenance says in which ways an external system is told who caused a
	// change: the id of the trace, the person at its beginning, and the object
	// that person changed. "AWSTags" sets the tags kausality.io/trace-id,
	// kausality.io/initiator and kausality.io/origin on managed resources of AWS
	// (an API group with "aws" in it) where spec.forProvider.tags is a map;
	// compose "tags: {}" to have them. "TerraformEnv" sets the environment
	// variables KAUSALITY_TRACE_ID, KAUSALITY_INITIATOR and KAUSALITY_ORIGIN of
	// Workspaces of provider-terraform and provider-opentofu. They change only
	// together with something else in the resource; by themselves they would be
	// drift.
	// +listType=set
	// +optional
	Provenance []Provenance `json:"provenance,omitempty"`
}

// Gate in front of external resources.
type Gate struct {
	// ManagementPolicies is "Webhook" (the default) or "Managed".
	// +kubebuilder:default=Webhook
	// +optional
	ManagementPolicies ManagementPolicies `json:"managementPolicies,omitempty"`
}
