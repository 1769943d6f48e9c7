package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the managed resources.
var GroupVersion = schema.GroupVersion{Group: "cloud.example.org", Version: "v1alpha1"}

// DatabaseGroupVersionKind is the kind Database.
var DatabaseGroupVersionKind = GroupVersion.WithKind("Database")

// AddToScheme registers the managed resources.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Database{}, &DatabaseList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
