package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
)

// DatabaseParameters are what a database should look like.
type DatabaseParameters struct {
	// Size of the database in GiB.
	// +kubebuilder:validation:Minimum=1
	Size int64 `json:"size"`

	// Engine of the database. Where it is not set, the cloud chooses one and
	// the provider fills it in here (late initialisation).
	// +optional
	Engine *string `json:"engine,omitempty"`

	// Tags of the database. Tags that are not named here are removed.
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// DatabaseObservation is what a database looks like.
type DatabaseObservation struct {
	// Size of the database in GiB.
	// +optional
	Size int64 `json:"size,omitempty"`

	// Engine of the database.
	// +optional
	Engine string `json:"engine,omitempty"`

	// Tags of the database.
	// +optional
	Tags map[string]string `json:"tags,omitempty"`

	// State of the database: creating, incomplete, available, updating,
	// deleting or failed.
	// +optional
	State string `json:"state,omitempty"`
}

// DatabaseSpec is the desired state of a Database.
type DatabaseSpec struct {
	xpv2.ManagedResourceSpec `json:",inline"`

	ForProvider DatabaseParameters `json:"forProvider"`
}

// DatabaseStatus is the observed state of a Database.
type DatabaseStatus struct {
	xpv2.ManagedResourceStatus `json:",inline"`

	// +optional
	AtProvider DatabaseObservation `json:"atProvider,omitempty"`
}

// A Database is a managed resource that stands for a database in the cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,example}
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type="string",JSONPath=".metadata.annotations.crossplane\\.io/external-name"
// +kubebuilder:printcolumn:name="POLICIES",type="string",JSONPath=".spec.managementPolicies"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DatabaseSpec   `json:"spec"`
	Status DatabaseStatus `json:"status,omitempty"`
}

// DatabaseList is a list of Databases.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Database `json:"items"`
}
