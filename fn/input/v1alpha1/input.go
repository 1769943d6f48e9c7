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

// Mode defines what happens to a change that is neither requested nor approved.
// +kubebuilder:validation:Enum=log;enforce
type Mode string

const (
	// ModeLog emits it and reports it.
	ModeLog Mode = "log"
	// ModeEnforce holds it.
	ModeEnforce Mode = "enforce"
)

// ManagementPolicies selects the component that masks spec.managementPolicies of
// managed resources.
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

// Input of the Kausality composition function. Everything in it is optional.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:categories=crossplane
type Input struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Mode is "log" or "enforce". The annotation kausality.io/mode of a composed
	// resource takes precedence, and so do that of its Namespace and the mode of the
	// Kausality policy that covers it, where Crossplane may read these.
	// +kubebuilder:default=log
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// SettleGrace is how long the composite and its resources must have been
	// ready without interruption before an intent counts as settled, as in
	// "10s" (the default). It is only used without a webhook.
	// +optional
	SettleGrace *metav1.Duration `json:"settleGrace,omitempty"`

	// Gate in front of the external resources of managed resources.
	// +optional
	Gate *Gate `json:"gate,omitempty"`

	// Policies that apply to this Composition, in addition to those that
	// PolicySelector selects. Each is the spec of an AllowancePolicy with a name.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Policies []Policy `json:"policies,omitempty"`

	// Upgrades that apply to this Composition, in addition to those that
	// PolicySelector selects. Each is the spec of an UpgradeAllowance with a name. A
	// composed resource is upgraded if the revision of the Composition or of a
	// function in its pipeline differs from the one at its last change.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	// +optional
	Upgrades []Upgrade `json:"upgrades,omitempty"`

	// ServiceAccount is the user name of Crossplane: UpgradeAllowances for this user
	// apply.
	// +kubebuilder:default="system:serviceaccount:crossplane-system:crossplane"
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`

	// PolicySelector selects the AllowancePolicies, UpgradeAllowances, ApprovalPolicies
	// and ClusterApprovalPolicies of the cluster that count. By default all do. Its
	// ApprovalRules, Kausality policies and the annotations of Namespaces always count.
	// All are fetched as required resources. If the ClusterRole kausality-crossplane by
	// which Crossplane reads them is missing, only what the Input has applies, and the
	// condition Kausality of the composite reports it. With a PolicySelector it reports
	// also that they are not installed.
	// +optional
	PolicySelector *PolicySelector `json:"policySelector,omitempty"`

	// External configures what is recorded in external systems.
	// +optional
	External *External `json:"external,omitempty"`

	// SecretPaths of fields of composed resources with secret values, as in
	// spec.forProvider.password: no id depends on the values at and below them. Values
	// of Secrets, also in manifests, need not be named. Name the fields here that the
	// policies of the webhook name, and those that CRDs declare with format password:
	// ids of webhook and function differ otherwise.
	// +kubebuilder:validation:MaxItems=64
	// +listType=set
	// +optional
	SecretPaths []string `json:"secretPaths,omitempty"`
}

// Policy is an AllowancePolicy in the Input.
type Policy struct {
	// Name of the policy, for messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	v1alpha1.AllowancePolicySpec `json:",inline"`
}

// Upgrade is an UpgradeAllowance in the Input.
type Upgrade struct {
	// Name of the upgrade, for messages and the annotation last-upgrade.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	v1alpha1.UpgradeAllowanceSpec `json:",inline"`
}

// PolicySelector selects the policies of the cluster that apply.
type PolicySelector struct {
	// MatchLabels are labels that a policy must have; without any, all policies
	// apply.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// External configures what is recorded in external systems.
type External struct {
	// Provenance lists the ways to record the cause of a change in an external
	// system: the id of the trace, its initiator, and the object that the
	// initiator changed. "AWSTags" sets the tags kausality.io/trace-id,
	// kausality.io/initiator and kausality.io/origin on managed resources of AWS
	// (an API group with "aws" in it) if spec.forProvider.tags is a map, or a list
	// of key and value; compose "tags: {}" to get them. "TerraformEnv" sets the
	// environment variables KAUSALITY_TRACE_ID, KAUSALITY_INITIATOR and
	// KAUSALITY_ORIGIN of Workspaces of provider-terraform and provider-opentofu,
	// and KAUSALITY_ALLOWED with what the gate is open for; each also as
	// TF_VAR_kausality_trace_id and so on where an inline module declares the
	// variable. They change only together with another field of the resource; on
	// their own they would be drift.
	// +listType=set
	// +optional
	Provenance []v1alpha1.Provenance `json:"provenance,omitempty"`

	// AWS configures what the calls of AWS providers carry.
	// +optional
	AWS *AWS `json:"aws,omitempty"`
}

// AWS configures what the calls of AWS providers carry.
type AWS struct {
	// Session of these calls; by default it is neither changed nor checked.
	// +optional
	Session *AWSSession `json:"session,omitempty"`
}

// AWSSession configures the session tag kausality-origin, with which a provider
// assumes the roles of a ProviderConfig.
type AWSSession struct {
	// Per is what the tag identifies: "XR", the composite, as in
	// "XDatabase.example.org/shop/orders", or without the namespace for a
	// cluster-scoped one; "Namespace", that of the composite, as in "shop"; or
	// "Claim", the Claim in spec.claimRef of the composite, as in
	// "Database.example.org/shop/orders". The function sets the tag, as a transitive
	// one, in spec.assumeRoleChain of each ProviderConfig and ClusterProviderConfig of
	// aws.m.upbound.io and aws.upbound.io that the Composition composes, and removes
	// other values. A ProviderConfig that a composed resource of AWS refers to, and
	// that the Composition does not compose, is shared: it is only checked, and a
	// warning reports another value.
	Per AWSSessionPer `json:"per"`
}

// AWSSessionPer is what the session tag identifies.
// +kubebuilder:validation:Enum=XR;Namespace;Claim
type AWSSessionPer string

const (
	// AWSSessionPerXR has a session for each composite.
	AWSSessionPerXR AWSSessionPer = "XR"
	// AWSSessionPerNamespace has a session for all composites of a Namespace.
	AWSSessionPerNamespace AWSSessionPer = "Namespace"
	// AWSSessionPerClaim has a session for each Claim.
	AWSSessionPerClaim AWSSessionPer = "Claim"
)

// Gate in front of external resources.
type Gate struct {
	// ManagementPolicies is "Webhook" (the default) or "Managed".
	// +kubebuilder:default=Webhook
	// +optional
	ManagementPolicies ManagementPolicies `json:"managementPolicies,omitempty"`

	// What the gate is like where ManagementPolicies is "Managed". The Kausality policy that covers a
	// resource takes precedence.
	v1alpha1.GateSettings `json:",inline"`
}
