package terraform

import (
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/workspace"
)

// What crossplane-runtime requires of a managed resource of before v2.
var (
	_ resource.LegacyManaged          = &Workspace{} //nolint:staticcheck // Deprecated, and in every cluster.
	_ resource.ReconciliationObserver = &Workspace{}
	_ resource.ManagedList            = &WorkspaceList{}

	_ interface {
		GetLastHandledReconcileAt() string
		SetLastHandledReconcileAt(token string)
	} = &Workspace{}
)

// GetCondition of this Workspace.
func (w *Workspace) GetCondition(t xpv2.ConditionType) xpv2.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions of this Workspace.
func (w *Workspace) SetConditions(c ...xpv2.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies of this Workspace.
func (w *Workspace) GetManagementPolicies() xpv2.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies of this Workspace.
func (w *Workspace) SetManagementPolicies(p xpv2.ManagementPolicies) { w.Spec.ManagementPolicies = p }

// GetDeletionPolicy of this Workspace.
func (w *Workspace) GetDeletionPolicy() xpv2.DeletionPolicy { return w.Spec.DeletionPolicy }

// SetDeletionPolicy of this Workspace.
func (w *Workspace) SetDeletionPolicy(p xpv2.DeletionPolicy) { w.Spec.DeletionPolicy = p }

// GetProviderConfigReference of this Workspace.
func (w *Workspace) GetProviderConfigReference() *xpv2.Reference {
	return w.Spec.ProviderConfigReference
}

// SetProviderConfigReference of this Workspace.
func (w *Workspace) SetProviderConfigReference(r *xpv2.Reference) {
	w.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference of this Workspace.
func (w *Workspace) GetWriteConnectionSecretToReference() *xpv2.SecretReference {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference of this Workspace.
func (w *Workspace) SetWriteConnectionSecretToReference(r *xpv2.SecretReference) {
	w.Spec.WriteConnectionSecretToReference = r
}

// GetObservedGeneration of this Workspace.
func (w *Workspace) GetObservedGeneration() int64 { return w.Status.GetObservedGeneration() }

// SetObservedGeneration of this Workspace.
func (w *Workspace) SetObservedGeneration(g int64) { w.Status.SetObservedGeneration(g) }

// GetLastHandledReconcileAt of this Workspace.
func (w *Workspace) GetLastHandledReconcileAt() string {
	return w.Status.GetLastHandledReconcileAt()
}

// SetLastHandledReconcileAt of this Workspace.
func (w *Workspace) SetLastHandledReconcileAt(token string) {
	w.Status.SetLastHandledReconcileAt(token)
}

// GetItems of this WorkspaceList.
func (l *WorkspaceList) GetItems() []resource.Managed {
	items := make([]resource.Managed, len(l.Items))
	for i := range l.Items {
		items[i] = &l.Items[i]
	}
	return items
}

// Parameters of this Workspace.
func (w *Workspace) Parameters() *workspace.Parameters { return &w.Spec.ForProvider }

// Observation of this Workspace.
func (w *Workspace) Observation() *workspace.Observation { return &w.Status.AtProvider }
