package aws

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the managed resources.
var GroupVersion = schema.GroupVersion{Group: "rds.aws.crossplane.io", Version: "v1alpha1"}

// InstanceGroupVersionKind is the kind RDSInstance.
var InstanceGroupVersionKind = GroupVersion.WithKind("RDSInstance")

// AddToScheme registers the managed resources.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &RDSInstance{}, &RDSInstanceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
