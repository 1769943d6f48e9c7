package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ApprovalPolicy approves drift by pattern. It speaks for the controller whose
// ServiceAccount has its name and namespace, or for its subjects.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ApprovalPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApprovalPolicySpec `json:"spec"`
	// +optional
	Status ApprovalPolicyStatus `json:"status,omitempty"`
}

// ApprovalPolicyList is a list of ApprovalPolicy.
//
// +kubebuilder:object:root=true
type ApprovalPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApprovalPolicy `json:"items"`
}

// ClusterApprovalPolicy approves drift by pattern, of the controllers that its
// subjects name, or of every controller.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterApprovalPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ApprovalPolicySpec `json:"spec"`
	// +optional
	Status ApprovalPolicyStatus `json:"status,omitempty"`
}

// ClusterApprovalPolicyList is a list of ClusterApprovalPolicy.
//
// +kubebuilder:object:root=true
type ClusterApprovalPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterApprovalPolicy `json:"items"`
}

// ApprovalPolicySpec of both kinds.
type ApprovalPolicySpec struct {
	// Subjects whose changes it approves: controllers, and other actors, as an
	// autoscaler, where a Kausality policy has otherActors: RequireApproval.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Subjects []Subject `json:"subjects,omitempty"`
	// Rules; the first that matches approves.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Rules []ApprovalPolicyRule `json:"rules"`
}

// ApprovalPolicyRule approves changes of children that it matches. Globs know * for
// any run of characters and ? for one; an omitted field is "*".
type ApprovalPolicyRule struct {
	// APIVersion of the child, a glob.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the child, a glob.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Namespace of the child, a glob.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Name of the child, a glob.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Prereqs are about the object before the change.
	//
	// +optional
	Prereqs *ApprovalPrereqs `json:"prereqs,omitempty"`
	// Match is about the object after the change.
	//
	// +optional
	Match *ApprovalMatch `json:"match,omitempty"`
	// Mode: once, generation (until the next intent on the parent that it was
	// first used for), always.
	//
	// +kubebuilder:validation:Enum=once;generation;always
	Mode ApprovalMode `json:"mode"`
	// Expiry, RFC 3339: the rule is without effect from then on.
	//
	// +optional
	Expiry *metav1.Time `json:"expiry,omitempty"`
}

// ApprovalPrereqs are about the object before the change.
type ApprovalPrereqs struct {
	// CEL expression; object is the object before the change. It is false where
	// there was none.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CEL string `json:"cel"`
}

// ApprovalMatch is about the object after the change; both must match where both
// are given.
//
// +kubebuilder:validation:XValidation:rule="has(self.cel) || has(self.regexp)",message="give cel or regexp"
type ApprovalMatch struct {
	// CEL expression over object, oldObject, request (user, groups, operation)
	// and parent.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	CEL string `json:"cel,omitempty"`
	// Regexp (RE2) that must match the whole canonical JSON of the desired state:
	// sorted keys, no white space.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Regexp string `json:"regexp,omitempty"`
}

// ApprovalPolicyStatus is whether a policy compiles, and how it was used.
type ApprovalPolicyStatus struct {
	PolicyStatus `json:",inline"`
	// Claims of rules with mode once and generation: written before a change is
	// let through.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	Claims []PolicyClaim `json:"claims,omitempty"`
}

// PolicyClaim is a use of a rule with mode once, or the parent a rule with mode
// generation holds for.
type PolicyClaim struct {
	// Rule is the hash of the rule's content.
	Rule string `json:"rule"`
	// ID of the use; it is approval.claim of the child's hop.
	ID string `json:"id"`
	// State of a use by mode once: pending until it is known whether the change
	// landed, then used. One that is known not to have landed is removed. Empty for
	// mode generation, and as used.
	//
	// +optional
	// +kubebuilder:validation:Enum=pending;used
	State ClaimState `json:"state,omitempty"`
	// Parent for which it was used.
	Parent ObjectReference `json:"parent"`
	// Generation of the parent's intent at that time.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Child it was used for; empty for mode generation.
	//
	// +optional
	Child *ClaimChild `json:"child,omitempty"`
	// Digest is the id of the difference; empty for mode generation.
	//
	// +optional
	Digest string `json:"digest,omitempty"`
	// User is a hash of the requester; empty for mode generation.
	//
	// +optional
	User string `json:"user,omitempty"`
	// At is when it was claimed, RFC 3339 UTC, whole seconds.
	At metav1.Time `json:"at"`
}
