package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpgradeAllowance lets a controller make changes that follow from its own
// upgrade, or from that of a Composition or Function.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Service Account",type=string,JSONPath=`.spec.serviceAccount`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.validFrom`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.validUntil`
// +kubebuilder:printcolumn:name="Compiled",type=string,JSONPath=`.status.conditions[?(@.type=="Compiled")].status`
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UpgradeAllowance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec UpgradeAllowanceSpec `json:"spec"`
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// UpgradeAllowanceList is a list of UpgradeAllowance.
//
// +kubebuilder:object:root=true
type UpgradeAllowanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UpgradeAllowance `json:"items"`
}

// UpgradeAllowanceSpec declares who may change what. With a window, the window alone
// decides when; without one, it applies once to each object and controller
// build.
//
// +kubebuilder:validation:XValidation:rule="!has(self.validFrom) || !has(self.validUntil) || self.validFrom < self.validUntil",message="validUntil must be after validFrom"
type UpgradeAllowanceSpec struct {
	// ServiceAccount is the user name of the controller, as in
	// system:serviceaccount:crossplane-system:crossplane.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ServiceAccount string `json:"serviceAccount"`
	// ValidFrom, RFC 3339; no beginning where not given.
	//
	// +optional
	ValidFrom *metav1.Time `json:"validFrom,omitempty"`
	// ValidUntil, RFC 3339; no end where not given.
	//
	// +optional
	ValidUntil *metav1.Time `json:"validUntil,omitempty"`
	// Selector of the objects, by their labels; all where not given.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Images are globs, as in registry.example.org/crossplane:v2.*; one container
	// of the calling pod must run an image that matches one of them. All builds
	// where not given.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	Images []string `json:"images,omitempty"`
	// Allow is what may be changed.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Allow []ShorthandAllow `json:"allow"`
}
