package opentofu

import (
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/apis/workspace"
)

// What crossplane-runtime requires of a managed resource. SetLastHandledReconcileAt
// is the one that makes it echo crossplane.io/reconcile-requested-at: its
// reconcileRequestTracker (pkg/reconciler/managed/reconciler.go) is unexported
// and satisfied silently or not at all.
var (
	_ resource.ModernManaged          = &Workspace{}
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

// GetProviderConfigReference of this Workspace.
func (w *Workspace) GetProviderConfigReference() *xpv2.ProviderConfigReference {
	return w.Spec.ProviderConfigReference
}

// SetProviderConfigReference of this Workspace.
func (w *Workspace) SetProviderConfigReference(r *xpv2.ProviderConfigReference) {
	w.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference of this Workspace.
func (w *Workspace) GetWriteConnectionSecretToReference() *xpv2.LocalSecretReference {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference of this Workspace.
func (w *Workspace) SetWriteConnectionSecretToReference(r *xpv2.LocalSecretReference) {
	w.Spec.WriteConnectionSecretToReference = r
}

// GetObservedGeneration of this Workspace.
func (w *Workspace) GetObservedGeneration() int64 { return w.Status.GetObservedGeneration() }

// SetObservedGeneration of this Workspace.
func (w *Workspace) SetObservedGeneration(g int64) { w.Status.SetObservedGeneration(g) }

// GetLastHandledReconcileAt of this Workspace.
func (w *Workspace) GetLastHandledReconcileAt() string { return w.Status.GetLastHandledReconcileAt() }

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
