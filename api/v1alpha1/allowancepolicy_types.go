package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AllowancePolicy declares which changes of an object permit which changes of
// its children, and of the external resources that they represent.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.target.apiGroup`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.target.kind`
// +kubebuilder:printcolumn:name="Match",type=string,JSONPath=`.spec.match.kind`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AllowancePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AllowancePolicySpec `json:"spec"`
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// AllowancePolicyList is a list of AllowancePolicy.
//
// +kubebuilder:object:root=true
type AllowancePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AllowancePolicy `json:"items"`
}

// AllowancePolicySpec has two forms: target with rules, or the shorthand match
// with allow. One policy uses one of them.
//
// +kubebuilder:validation:XValidation:rule="has(self.target) != has(self.match)",message="give either target (with rules) or match (with allow)"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || (!has(self.rules) && !has(self.initializing) && !has(self.deleting))",message="rules, initializing and deleting go with target, not with match"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || has(self.allow)",message="match needs allow"
// +kubebuilder:validation:XValidation:rule="has(self.match) || !has(self.allow)",message="spec.allow requires spec.match; with spec.target use spec.rules[].allow"
type AllowancePolicySpec struct {
	// Target is the kind whose changes are the causes.
	//
	// +optional
	Target *PolicyTarget `json:"target,omitempty"`
	// Subjects whose changes are granted allowances. A change by another
	// user is allowed or refused as without the policy, and grants none.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Subjects []PolicySubject `json:"subjects,omitempty"`
	// Initializing: what is allowed before the object first settled; everything
	// where omitted.
	//
	// +optional
	Initializing *InitializingRule `json:"initializing,omitempty"`
	// Deleting: what is allowed once the object is being deleted. Where omitted,
	// children may be deleted, and external resources may not.
	//
	// +optional
	Deleting *DeletingRule `json:"deleting,omitempty"`
	// Rules for what is allowed otherwise.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Rules []AllowanceRule `json:"rules,omitempty"`

	// Match is the cause in the shorthand.
	//
	// +optional
	Match *AllowanceMatch `json:"match,omitempty"`
	// Allow is what Match permits, in the shorthand.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Allow []ShorthandAllow `json:"allow,omitempty"`
}

// PolicySubject is a Subject that may start a chain.
type PolicySubject struct {
	Subject `json:",inline"`
	// MayInitiate: starts a chain; without it the subject extends one only.
	//
	// +optional
	MayInitiate bool `json:"mayInitiate,omitempty"`
}

// InitializingRule is what is allowed while an object initialises.
type InitializingRule struct {
	// When is a CEL expression over object: true while it initialises. Where
	// empty, that is until it first settled or was Ready.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	When string `json:"when,omitempty"`
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Allow []AllowedChange `json:"allow"`
}

// DeletingRule is what is allowed while an object is being deleted.
type DeletingRule struct {
	// Allow nothing where empty: children are kept.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Allow []AllowedChange `json:"allow"`
}

// AllowanceRule leads from a changed field to what is allowed by it.
type AllowanceRule struct {
	// DerivedFrom are the lines of what the rule was derived from, as in
	// resources[0].template.spec.replicas: ${schema.spec.replicas}. They have no
	// effect.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	DerivedFrom []string `json:"derivedFrom,omitempty"`
	// Trigger is the path of the field; [*] matches any index or key.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Trigger string `json:"trigger"`
	// Conditions are CEL expressions that must all be true. Variables: object,
	// oldObject, request (user, groups, operation), parent.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Conditions []string `json:"conditions,omitempty"`
	// Capture are paths of the object whose values are kept as attestations.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Capture []string `json:"capture,omitempty"`
	// Allow is what the change permits.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Allow []AllowedChange `json:"allow"`
}

// AllowedChange is one permitted kind of change.
//
// +kubebuilder:validation:XValidation:rule="self.relation == 'ControllerChild' || !has(self.mutations)",message="mutations go with relation ControllerChild only"
// +kubebuilder:validation:XValidation:rule="self.relation == 'External' || !has(self.externalTarget)",message="externalTarget goes with relation External only"
// +kubebuilder:validation:XValidation:rule="self.relation != 'ControllerChild' || self.verbs.all(v, v in ['Create', 'Update', 'Delete', '*'])",message="verbs of a ControllerChild are Create, Update, Delete and *"
// +kubebuilder:validation:XValidation:rule="self.relation != 'External' || self.verbs.all(v, v in ['Create', 'Update', 'Delete', 'apply', 'destroy', 'sync', 'delete', '*'])",message="verbs of External are Create, Update, Delete (Crossplane), apply, destroy (Terraform), sync, delete (Argo CD) and *"
type AllowedChange struct {
	// Target kind; any where omitted.
	//
	// +optional
	Target *PolicyTarget `json:"target,omitempty"`
	// Relation of what is changed: ControllerChild or External.
	//
	// +kubebuilder:validation:Enum=ControllerChild;External
	Relation Relation `json:"relation"`
	// Verbs allowed.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=16
	// +listType=set
	Verbs []string `json:"verbs"`
	// Mutations: fields that may be changed; every field where omitted. For
	// ControllerChild only.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Mutations []AllowedMutation `json:"mutations,omitempty"`
	// ExternalTarget identifies what may be changed, for readers and for external
	// systems; the webhook does not interpret it. For External only.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	ExternalTarget map[string]string `json:"externalTarget,omitempty"`
}

// AllowanceMatch is the cause in the shorthand.
type AllowanceMatch struct {
	// APIGroup of Kind; any group where it is not given.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup *string `json:"apiGroup,omitempty"`
	// Kind whose changes are the causes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Fields that trigger; [*] matches any index or key.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Fields []string `json:"fields"`
	// CEL expressions that must all be true, as conditions of a rule.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	CEL []string `json:"cel,omitempty"`
	// Capture as in a rule.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Capture []string `json:"capture,omitempty"`
}

// RelationChild is how the shorthand writes RelationControllerChild.
const RelationChild Relation = "Child"

// ShorthandAllow is a permitted kind of change in the shorthand.
//
// +kubebuilder:validation:XValidation:rule="self.relation == 'External' ? self.mutations.all(m, m in ['Create', 'Update', 'Delete', 'apply', 'destroy', 'sync', 'delete', '*']) : has(self.kind)",message="a Child needs its kind; mutations of External are Create, Update, Delete (Crossplane), apply, destroy (Terraform), sync, delete (Argo CD) and *"
type ShorthandAllow struct {
	// APIGroup of Kind; any group where it is not given.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup *string `json:"apiGroup,omitempty"`
	// Kind of the child.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Relation: Child (ControllerChild) or External.
	//
	// +kubebuilder:validation:Enum=Child;ControllerChild;External
	Relation Relation `json:"relation"`
	// Mutations: field paths, create and delete for a Child; verbs of the
	// external system for External.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Mutations []string `json:"mutations"`
}
