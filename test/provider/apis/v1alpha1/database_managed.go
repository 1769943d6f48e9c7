package v1alpha1

import (
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
)

// What crossplane-runtime requires of a managed resource. SetLastHandledReconcileAt
// is the one that makes it echo crossplane.io/reconcile-requested-at: its
// reconcileRequestTracker (pkg/reconciler/managed/reconciler.go) is unexported
// and satisfied silently or not at all.
var (
	_ resource.ModernManaged          = &Database{}
	_ resource.ReconciliationObserver = &Database{}
	_ resource.ManagedList            = &DatabaseList{}

	_ interface {
		GetLastHandledReconcileAt() string
		SetLastHandledReconcileAt(token string)
	} = &Database{}
)

// GetCondition of this Database.
func (d *Database) GetCondition(t xpv2.ConditionType) xpv2.Condition {
	return d.Status.GetCondition(t)
}

// SetConditions of this Database.
func (d *Database) SetConditions(c ...xpv2.Condition) { d.Status.SetConditions(c...) }

// GetManagementPolicies of this Database.
func (d *Database) GetManagementPolicies() xpv2.ManagementPolicies {
	return d.Spec.ManagementPolicies
}

// SetManagementPolicies of this Database.
func (d *Database) SetManagementPolicies(p xpv2.ManagementPolicies) { d.Spec.ManagementPolicies = p }

// GetProviderConfigReference of this Database.
func (d *Database) GetProviderConfigReference() *xpv2.ProviderConfigReference {
	return d.Spec.ProviderConfigReference
}

// SetProviderConfigReference of this Database.
func (d *Database) SetProviderConfigReference(r *xpv2.ProviderConfigReference) {
	d.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference of this Database.
func (d *Database) GetWriteConnectionSecretToReference() *xpv2.LocalSecretReference {
	return d.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference of this Database.
func (d *Database) SetWriteConnectionSecretToReference(r *xpv2.LocalSecretReference) {
	d.Spec.WriteConnectionSecretToReference = r
}

// GetObservedGeneration of this Database.
func (d *Database) GetObservedGeneration() int64 { return d.Status.GetObservedGeneration() }

// SetObservedGeneration of this Database.
func (d *Database) SetObservedGeneration(g int64) { d.Status.SetObservedGeneration(g) }

// GetLastHandledReconcileAt of this Database.
func (d *Database) GetLastHandledReconcileAt() string { return d.Status.GetLastHandledReconcileAt() }

// SetLastHandledReconcileAt of this Database.
func (d *Database) SetLastHandledReconcileAt(token string) {
	d.Status.SetLastHandledReconcileAt(token)
}

// GetItems of this DatabaseList.
func (l *DatabaseList) GetItems() []resource.Managed {
	items := make([]resource.Managed, len(l.Items))
	for i := range l.Items {
		items[i] = &l.Items[i]
	}
	return items
}
