package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyTarget names a kind of objects.
type PolicyTarget struct {
	// APIGroup of the kind; empty for the core group.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// APIVersion that field paths are written for. Objects are recognised by
	// group and kind, since the API server converts between versions.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the objects.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// Subject that a policy is about, as in RBAC.
//
// +kubebuilder:validation:XValidation:rule="self.kind == 'ServiceAccount' ? has(self.__namespace__) : !has(self.__namespace__)",message="a ServiceAccount needs a namespace, a User or Group has none"
type Subject struct {
	// +kubebuilder:validation:Enum=User;Group;ServiceAccount
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`
	// Namespace of a ServiceAccount.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// Kinds of a Subject.
const (
	SubjectUser           = "User"
	SubjectGroup          = "Group"
	SubjectServiceAccount = "ServiceAccount"
)

// RuleStatus is the compile result of one rule, or its use.
type RuleStatus struct {
	// Path of the rule in the spec, as in rules[0].
	Path string `json:"path"`
	// Compiled: the rule is in force.
	Compiled bool `json:"compiled"`
	// Errors with their places; a rule that has any grants nothing.
	//
	// +optional
	Errors []string `json:"errors,omitempty"`
	// Warnings: parts of the rule that can have no effect, with their places.
	//
	// +optional
	Warnings []string `json:"warnings,omitempty"`
	// Uses of a rule of an ApprovalPolicy, or of an UpgradeAllowance: how many
	// changes it let through. What a replica counted in the half minute before it
	// was killed is missing.
	//
	// +optional
	Uses int64 `json:"uses,omitempty"`
	// LastUsed, RFC 3339 UTC, to the minute.
	//
	// +optional
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
}

// PolicyStatus is whether a policy compiles.
type PolicyStatus struct {
	// ObservedGeneration of the spec that Rules is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Compiled is True where every rule is in force, Effective where every part of
	// the policy can have an effect on the kinds of the cluster.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Rules in the order of the spec.
	//
	// +optional
	// +listType=map
	// +listMapKey=path
	Rules []RuleStatus `json:"rules,omitempty"`
}

// ConditionCompiled of a policy.
const ConditionCompiled = "Compiled"

// Reasons of ConditionCompiled.
const (
	ReasonCompiled      = "Compiled"
	ReasonCompileFailed = "CompileFailed"
)

// ConditionEffective of a policy.
const ConditionEffective = "Effective"

// Reasons of ConditionEffective.
const (
	ReasonEffective     = "Effective"
	ReasonWithoutEffect = "WithoutEffect"
)

// ConditionDerived of an AllowancePolicy that is kept in step with a
// ResourceGraphDefinition: whether its rules are those of the graph. Its message
// has the lines of the graph that no rule explains.
const ConditionDerived = "Derived"

// Reasons of ConditionDerived.
const (
	ReasonDerived       = "Derived"
	ReasonDerivedInPart = "DerivedInPart"
	ReasonInvalidGraph  = "InvalidGraph"
)
