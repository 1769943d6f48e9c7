package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// DriftResource is where Drifts are served.
var DriftResource = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceDrifts)

// Drifts returns the Drifts of a namespace, or of all where it is empty, that keep selects; nil
// selects all. They are sorted: open ones first, then the newest, then by id.
func Drifts(ctx context.Context, client dynamic.Interface, namespace string, keep func(*v1alpha1.Drift) bool) ([]v1alpha1.Drift, error) {
	var out []v1alpha1.Drift
	for u, err := range informer.Items(ctx, client.Resource(DriftResource).Namespace(namespace), informer.PageSize) {
		if kerrors.IsNotFound(err) {
			return nil, fmt.Errorf("cannot list drifts: the API server does not serve them; is Kausality installed? (kausality manifests --crds-only)")
		}
		if kerrors.IsForbidden(err) {
			return nil, fmt.Errorf("cannot list drifts: %w; the ClusterRole kausality-viewer grants that to those it is bound to", err)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot list drifts: %w", err)
		}
		d, err := DriftOf(u)
		if err != nil {
			return nil, err
		}
		if keep == nil || keep(d) {
			out = append(out, *d)
		}
	}
	return sorted(out), nil
}

// DriftOf returns the Drift of an object as it was read.
func DriftOf(u *unstructured.Unstructured) (*v1alpha1.Drift, error) {
	d := &v1alpha1.Drift{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, d); err != nil {
		return nil, fmt.Errorf("cannot read drift %s: %w", u.GetName(), err)
	}
	return d, nil
}

// ByUrgency orders Drifts as they are listed: unresolved and new ones first, those of the same second by their objects.
func ByUrgency(a, b *v1alpha1.Drift) int {
	resolved := func(d *v1alpha1.Drift) int {
		if channel.Open(d) {
			return 0
		}
		return 1
	}
	x, y := &a.Spec.Child, &b.Spec.Child
	return cmp.Or(resolved(a)-resolved(b), channel.Since(b).Compare(channel.Since(a).Time), strings.Compare(x.Resource, y.Resource),
		strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name), strings.Compare(a.Name, b.Name))
}

// sorted sorts Drifts by ByUrgency.
func sorted(list []v1alpha1.Drift) []v1alpha1.Drift {
	order := func(a, b v1alpha1.Drift) int { return ByUrgency(&a, &b) }
	if !slices.IsSortedFunc(list, order) {
		slices.SortStableFunc(list, order)
	}
	return list
}

// Find finds the Drift with an id: in a namespace, else in all of them.
func Find(ctx context.Context, client dynamic.Interface, namespace, id string) (*v1alpha1.Drift, error) {
	u, err := client.Resource(DriftResource).Namespace(namespace).Get(ctx, id, metav1.GetOptions{})
	if err == nil {
		return DriftOf(u)
	}
	if !kerrors.IsNotFound(err) {
		return nil, fmt.Errorf("cannot read drift %s: %w", id, err)
	}
	list, err := client.Resource(DriftResource).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + id, Limit: 2})
	if err == nil && len(list.Items) == 1 {
		return DriftOf(&list.Items[0])
	}
	return nil, fmt.Errorf("there is no drift %s in namespace %s; kubectl kausality pending -A lists pending changes", id, namespace)
}

// About reports whether a drift is about an object: as its child or as the
// parent that holds approvals for it.
func About(d *v1alpha1.Drift, ref parent.Ref) bool {
	return names(d.Spec.Child, ref) || names(d.Spec.Parent, ref)
}

// names reports whether a reference is to an object. UIDs are compared where both
// are known.
func names(o v1alpha1.ObjectReference, ref parent.Ref) bool {
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	return gvk.GroupKind() == ref.GroupKind() && o.Name == ref.Name && o.Namespace == ref.Namespace && (o.UID == "" || ref.UID == "" || o.UID == ref.UID)
}

// DriftsAbout returns the Drifts about an object. They are in the namespace of the parent or, where that
// is cluster-scoped, of the child (KR-10-01).
func DriftsAbout(ctx context.Context, client dynamic.Interface, s *parent.State) ([]v1alpha1.Drift, error) {
	namespaces := []string{s.Namespace}
	if s.Namespace != "" && s.Parent.Namespace != "" && s.Parent.Namespace != s.Namespace {
		namespaces = append(namespaces, s.Parent.Namespace)
	}
	var out []v1alpha1.Drift
	for _, ns := range namespaces {
		list, err := Drifts(ctx, client, ns, func(d *v1alpha1.Drift) bool { return About(d, s.Ref) })
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return sorted(out), nil
}
