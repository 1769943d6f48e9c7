package aws

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
)

// RDSInstanceParameters are what an instance should look like.
type RDSInstanceParameters struct {
	// InstanceClass, as in db.t3.medium.
	InstanceClass string `json:"instanceClass"`

	// Engine of the instance. The cloud does not change that of one that exists.
	Engine string `json:"engine"`
}

// RDSInstanceObservation is what an instance looks like.
type RDSInstanceObservation struct {
	// InstanceClass of the instance.
	// +optional
	InstanceClass string `json:"instanceClass,omitempty"`

	// Engine of the instance.
	// +optional
	Engine string `json:"engine,omitempty"`
}

// RDSInstanceSpec is the desired state of an RDSInstance.
type RDSInstanceSpec struct {
	xpv2.ClusterManagedResourceSpec `json:",inline"`

	ForProvider RDSInstanceParameters `json:"forProvider"`
}

// RDSInstanceStatus is the observed state of an RDSInstance.
type RDSInstanceStatus struct {
	xpv2.ManagedResourceStatus `json:",inline"`

	// +optional
	AtProvider RDSInstanceObservation `json:"atProvider,omitempty"`
}

// An RDSInstance is a managed resource that stands for an instance in the cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories={crossplane,managed,example}
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="POLICIES",type="string",JSONPath=".spec.managementPolicies"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type RDSInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RDSInstanceSpec   `json:"spec"`
	Status RDSInstanceStatus `json:"status,omitempty"`
}

// RDSInstanceList is a list of RDSInstances.
//
// +kubebuilder:object:root=true
type RDSInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RDSInstance `json:"items"`
}
