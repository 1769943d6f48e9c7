package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the kinds.
var GroupVersion = schema.GroupVersion{Group: "garden.example.org", Version: "v1"}

// +kubebuilder:object:root=true

// Garden in which plants grow.
type Garden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GardenSpec   `json:"spec,omitempty"`
	Status GardenStatus `json:"status,omitempty"`
}

// GardenSpec is what its owner wants.
type GardenSpec struct {
	// Plants is how many there are.
	Plants int32 `json:"plants"`
	// Variety of all of them.
	Variety string `json:"variety"`
}

// GardenStatus is what the controller has done.
type GardenStatus struct {
	// ObservedGeneration that the conditions are about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions, of which Ready is true once all plants are as they shall be.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true

// GardenList is a list of them.
type GardenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Garden `json:"items"`
}

// +kubebuilder:object:root=true

// Plant of a Garden.
type Plant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PlantSpec `json:"spec,omitempty"`
}

// PlantSpec is how it is grown.
type PlantSpec struct {
	// Variety of the plant.
	Variety string `json:"variety"`
	// Fertilizer that it gets; none where empty.
	Fertilizer string `json:"fertilizer,omitempty"`
}

// +kubebuilder:object:root=true

// PlantList is a list of them.
type PlantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Plant `json:"items"`
}

// AddToScheme registers the kinds for clients.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Garden{}, &GardenList{}, &Plant{}, &PlantList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
