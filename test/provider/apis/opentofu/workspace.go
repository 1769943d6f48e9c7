// Package opentofu has the Workspace of provider-opentofu in a namespace.
//
// +kubebuilder:object:generate=true
// +groupName=opentofu.m.upbound.io
// +versionName=v1beta1
package opentofu

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/workspace"
)

// GroupVersion of the managed resources.
var GroupVersion = schema.GroupVersion{Group: "opentofu.m.upbound.io", Version: "v1beta1"}

// WorkspaceGroupVersionKind is the kind Workspace.
var WorkspaceGroupVersionKind = GroupVersion.WithKind("Workspace")

// AddToScheme registers the managed resources.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Workspace{}, &WorkspaceList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// WorkspaceSpec is the desired state of a Workspace.
type WorkspaceSpec struct {
	xpv2.ManagedResourceSpec `json:",inline"`

	ForProvider workspace.Parameters `json:"forProvider"`
}

// WorkspaceStatus is the observed state of a Workspace.
type WorkspaceStatus struct {
	xpv2.ManagedResourceStatus `json:",inline"`

	// +optional
	AtProvider workspace.Observation `json:"atProvider,omitempty"`
}

// A Workspace is a managed resource that represents a root module and its state.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,terraform}
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Workspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WorkspaceSpec   `json:"spec"`
	Status WorkspaceStatus `json:"status,omitempty"`
}

// WorkspaceList is a list of Workspaces.
//
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Workspace `json:"items"`
}
