package identity

import (
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/parent"
)

// Kind is what decisions need to know of a kind. The zero Kind is an ordinary
// kind, one that is no part of Crossplane.
type Kind struct {
	// Role in Crossplane, according to the CRD.
	Role parent.Role
	// ManagementPolicies: the schema has spec.managementPolicies.
	ManagementPolicies bool
	// Runtime is the set of managementPolicies that the provider accepts.
	Runtime mask.Runtime
	// ReconcileRequests: the provider echoes
	// v1alpha1.AnnotationKeyReconcileRequestedAt in its status.
	ReconcileRequests bool
	// Resource is the plural with group, as kubectl takes it:
	// xdatabases.example.org. Empty where it is unknown.
	Resource string
}

// Holder of approvals for an object: the object itself, or one of its ancestors.
type Holder struct {
	State *parent.State
	Kind  Kind
}

// ClaimEffect is a claim to write on the object that holds an approval.
type ClaimEffect struct {
	Holder parent.Ref
	Entry  approval.Entry
	Use    approval.Use
	// Stored is the value of the holder's claims annotation that the decision
	// is based on; the write must fail where it is another one.
	Stored string
	// HasStored: the annotation exists.
	HasStored bool
	// Value to store.
	Value string
	// ID of the claim.
	ID string
}
