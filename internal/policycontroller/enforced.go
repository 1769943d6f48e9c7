package policycontroller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kausality-io/function-kausality/admission/settings"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/manifests"
)

var namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")

// modeOnly is the cache transform of Namespaces: their mode is all that is read, and there may be many.
func modeOnly(o any) (any, error) {
	ns, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil // a cache.DeletedFinalStateUnknown
	}
	slim := &metav1.PartialObjectMetadata{TypeMeta: ns.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: ns.Name, UID: ns.UID, ResourceVersion: ns.ResourceVersion}}
	if mode, ok := ns.Annotations[v1alpha1.AnnotationKeyMode]; ok {
		slim.Annotations = map[string]string{v1alpha1.AnnotationKeyMode: mode}
	}
	return slim, nil
}

// enforces reports whether a Namespace enforces by its annotation.
func enforces(ns client.Object) bool {
	return v1alpha1.Mode(ns.GetAnnotations()[v1alpha1.AnnotationKeyMode]) == v1alpha1.ModeEnforce
}

// enforcedChanges selects the events of Namespaces that begin or cease to enforce.
func enforcedChanges() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return enforces(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return enforces(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return enforces(e.ObjectOld) != enforces(e.ObjectNew) },
	}
}

// enforced returns the names of the Namespaces that enforce by their annotation, sorted, without those where no webhook is ever called
// (KR-12-10). A Namespace that is being deleted enforces until it is gone.
func (c *Controller) enforced(ctx context.Context) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(namespaceKind)
	if err := c.Cached.List(ctx, list); err != nil {
		return nil, fmt.Errorf("cannot list namespaces: %w", err)
	}
	var out []string
	for i := range list.Items {
		if ns := &list.Items[i]; enforces(ns) && !manifests.NeverGuarded(ns.Name) {
			out = append(out, ns.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// maxFailOpen bounds status.failOpenNamespaces.
const maxFailOpen = 16

// outage is what the status of a policy has about an outage of the webhook (KR-12-11).
func outage(k *v1alpha1.Kausality, set settings.Set, out outcome) {
	k.Status.DuringOutage, k.Status.EnforcedNamespaces, k.Status.FailOpenNamespaces = "", 0, nil
	if out.guarded == nil || out.failed != nil || !slices.ContainsFunc(set.Scopes(), func(s settings.Scope) bool { return s.Policy == k.Name }) {
		return // it may be as it was
	}
	o := out.guarded.Outages[k.Name]
	k.Status.DuringOutage, k.Status.EnforcedNamespaces = o.String(), int32(o.Enforced) //nolint:gosec // It is bounded by the configuration.
	if o.Allows {
		k.Status.FailOpenNamespaces = out.guarded.FailOpen[:min(len(out.guarded.FailOpen), maxFailOpen)]
	}
}
