package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cluster"
)

// Pending changes of a namespace, or of all where it is empty: open Drifts, and
// what the composition function holds. Newest first. unread are the errors of what the user
// may not read, and which is left out.
func Pending(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, namespace string) (out []v1alpha1.Drift, unread []error, err error) {
	if out, err = Drifts(ctx, client, namespace, Open); err != nil {
		return nil, nil, err
	}
	held, unread, err := Held(ctx, client, mapper, namespace)
	if err != nil {
		return nil, nil, err
	}
	return merged(out, held), unread, nil
}

// Below are the changes of a list whose parents have labels. namespace is that of the
// parents, or empty for all. Each kind of parents is listed once.
func Below(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, list []v1alpha1.Drift, namespace, selector string,
) ([]v1alpha1.Drift, error) {
	type name struct{ namespace, name string }
	parents := map[schema.GroupVersionKind]map[name]bool{}
	var out []v1alpha1.Drift
	for _, d := range list {
		p := d.Spec.Parent
		gvk := schema.FromAPIVersionAndKind(p.APIVersion, p.Kind)
		have, ok := parents[gvk]
		if !ok {
			m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			if err != nil {
				return nil, fmt.Errorf("cannot find the resource of kind %s: %w", gvk.GroupKind(), err)
			}
			have = map[name]bool{}
			for o, err := range cluster.Labelled(ctx, ClientOf(client, m, namespace), selector, cluster.PageSize) {
				if err != nil {
					return nil, fmt.Errorf("cannot list %s: %w", m.Resource.GroupResource(), err)
				}
				have[name{o.GetNamespace(), o.GetName()}] = true
			}
			parents[gvk] = have
		}
		if have[name{p.Namespace, p.Name}] {
			out = append(out, d)
		}
	}
	return out, nil
}

// IsHeld reports whether the composition function holds a change, so that there
// is no Drift object.
func IsHeld(d *v1alpha1.Drift) bool { return d.UID == "" }

// merged are Drifts and what is held, each difference once.
func merged(drifts, held []v1alpha1.Drift) []v1alpha1.Drift {
	for _, h := range held {
		if !slices.ContainsFunc(drifts, func(d v1alpha1.Drift) bool { return d.Name == h.Name && Open(&d) }) {
			drifts = append(drifts, h)
		}
	}
	slices.SortStableFunc(drifts, byUrgency)
	return drifts
}

// About an object: Drifts, the resolved ones last, and what the function holds of
// it or below it.
func (i *Inspector) About(ctx context.Context, o *unstructured.Unstructured) ([]v1alpha1.Drift, error) {
	obj, err := i.look(ctx, o)
	if err != nil {
		return nil, err
	}
	out, err := DriftsAbout(ctx, i.Direct.Dynamic, obj.State)
	if err != nil {
		return nil, err
	}
	xr := o
	if obj.Role != parent.RoleComposite {
		if xr, err = i.composite(ctx, obj.Parent); err != nil || xr == nil {
			return out, err
		}
	}
	held, err := HeldBy(ctx, i.Direct.Dynamic, i.mapper, xr)
	if err != nil {
		return nil, err
	}
	if obj.Role != parent.RoleComposite {
		held = slices.DeleteFunc(held, func(d v1alpha1.Drift) bool { return !names(d.Spec.Child, obj.State.Ref) })
	}
	return merged(out, held), nil
}

// composite that a parent reference names; nil where it is not a composite or
// does not exist.
func (i *Inspector) composite(ctx context.Context, ref parent.Ref) (*unstructured.Unstructured, error) {
	if ref.Name == "" || i.world.Kind(ref.GroupVersionKind).Role != parent.RoleComposite {
		return nil, nil // nil is not a composite.
	}
	o, err := readRef(ctx, i.Direct.Dynamic, i.mapper, ref)
	if errors.Is(err, admission.ErrNotFound) {
		return nil, nil // nil is not a composite.
	}
	return o, err
}
