package aws

import (
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
)

// What crossplane-runtime requires of a managed resource of before v2.
var (
	_ resource.LegacyManaged          = &RDSInstance{} //nolint:staticcheck // Deprecated, and in every cluster.
	_ resource.ReconciliationObserver = &RDSInstance{}
	_ resource.ManagedList            = &RDSInstanceList{}

	_ interface {
		GetLastHandledReconcileAt() string
		SetLastHandledReconcileAt(token string)
	} = &RDSInstance{}
)

// GetCondition of this RDSInstance.
func (i *RDSInstance) GetCondition(t xpv2.ConditionType) xpv2.Condition {
	return i.Status.GetCondition(t)
}

// SetConditions of this RDSInstance.
func (i *RDSInstance) SetConditions(c ...xpv2.Condition) { i.Status.SetConditions(c...) }

// GetManagementPolicies of this RDSInstance.
func (i *RDSInstance) GetManagementPolicies() xpv2.ManagementPolicies {
	return i.Spec.ManagementPolicies
}

// SetManagementPolicies of this RDSInstance.
func (i *RDSInstance) SetManagementPolicies(p xpv2.ManagementPolicies) { i.Spec.ManagementPolicies = p }

// GetDeletionPolicy of this RDSInstance.
func (i *RDSInstance) GetDeletionPolicy() xpv2.DeletionPolicy { return i.Spec.DeletionPolicy }

// SetDeletionPolicy of this RDSInstance.
func (i *RDSInstance) SetDeletionPolicy(p xpv2.DeletionPolicy) { i.Spec.DeletionPolicy = p }

// GetProviderConfigReference of this RDSInstance.
func (i *RDSInstance) GetProviderConfigReference() *xpv2.Reference {
	return i.Spec.ProviderConfigReference
}

// SetProviderConfigReference of this RDSInstance.
func (i *RDSInstance) SetProviderConfigReference(r *xpv2.Reference) {
	i.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference of this RDSInstance.
func (i *RDSInstance) GetWriteConnectionSecretToReference() *xpv2.SecretReference {
	return i.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference of this RDSInstance.
func (i *RDSInstance) SetWriteConnectionSecretToReference(r *xpv2.SecretReference) {
	i.Spec.WriteConnectionSecretToReference = r
}

// GetObservedGeneration of this RDSInstance.
func (i *RDSInstance) GetObservedGeneration() int64 { return i.Status.GetObservedGeneration() }

// SetObservedGeneration of this RDSInstance.
func (i *RDSInstance) SetObservedGeneration(g int64) { i.Status.SetObservedGeneration(g) }

// GetLastHandledReconcileAt of this RDSInstance.
func (i *RDSInstance) GetLastHandledReconcileAt() string {
	return i.Status.GetLastHandledReconcileAt()
}

// SetLastHandledReconcileAt of this RDSInstance.
func (i *RDSInstance) SetLastHandledReconcileAt(token string) {
	i.Status.SetLastHandledReconcileAt(token)
}

// GetItems of this RDSInstanceList.
func (l *RDSInstanceList) GetItems() []resource.Managed {
	items := make([]resource.Managed, len(l.Items))
	for i := range l.Items {
		items[i] = &l.Items[i]
	}
	return items
}
