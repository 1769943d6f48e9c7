// Package workspace has what the Workspaces of provider-terraform and provider-opentofu have in common, in both scopes: the
// parameters and the observation, by the names of provider-terraform (apis/namespaced/v1beta1/workspace_types.go). Of its
// parameters those are left out that tests do not need: modules from elsewhere, files of variables, and logs.
//
// +kubebuilder:object:generate=true
package workspace

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Formats of an inline module.
const (
	FormatHCL  = "HCL"
	FormatJSON = "JSON"
)

// Parameters are the configurable fields of a Workspace.
type Parameters struct {
	// Module is the content of the root module.
	Module string `json:"module"`

	// InlineFormat of the Module.
	// +kubebuilder:validation:Enum=HCL;JSON
	// +optional
	InlineFormat string `json:"inlineFormat,omitempty"`

	// Source of the root module.
	// +kubebuilder:validation:Enum=Inline
	Source string `json:"source"`

	// Env are environment variables of each run.
	// +optional
	Env []EnvVar `json:"env,omitempty"`

	// Vars are variables of the configuration.
	// +optional
	Vars []Var `json:"vars,omitempty"`

	// InitArgs are further arguments of init.
	// +optional
	InitArgs []string `json:"initArgs,omitempty"`

	// PlanArgs are further arguments of plan.
	// +optional
	PlanArgs []string `json:"planArgs,omitempty"`

	// ApplyArgs are further arguments of apply.
	// +optional
	ApplyArgs []string `json:"applyArgs,omitempty"`

	// DestroyArgs are further arguments of destroy.
	// +optional
	DestroyArgs []string `json:"destroyArgs,omitempty"`
}

// Var is a variable of the configuration.
type Var struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// EnvVar is an environment variable of each run.
type EnvVar struct {
	Name string `json:"name"`

	// +optional
	Value string `json:"value,omitempty"`

	// SecretKeyRef is a key of a Secret that has the value; in the namespace of the Workspace where that has one.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
}

// KeyReference is a key of a Secret.
type KeyReference struct {
	// Namespace of the Secret, of a Workspace without one.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// Observation has the observable fields of a Workspace.
type Observation struct {
	// Checksum of the working directory, without what init downloads: where it is the same, init is left out.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// Outputs that are not sensitive.
	// +optional
	Outputs map[string]extv1.JSON `json:"outputs,omitempty"`
}
