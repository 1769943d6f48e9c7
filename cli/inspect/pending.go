package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// Pending returns the pending changes of a namespace, or of all where it is empty: open Drifts, and
// what the composition function holds. Newest first.
func Pending(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, namespace string) (out Waiting, err error) {
	open, err := Drifts(ctx, client, namespace, channel.Open)
	if err != nil {
		return out, err
	}
	if out, err = Held(ctx, client, mapper, namespace); err != nil {
		return out, err
	}
	return out.Merged(open), nil
}

// Merged returns what the composition function holds together with Drifts, each difference once, as Pending has it.
func (w Waiting) Merged(drifts []v1alpha1.Drift) Waiting {
	for _, h := range w.Drifts {
		if !slices.ContainsFunc(drifts, func(d v1alpha1.Drift) bool { return d.Name == h.Name && channel.Open(&d) }) {
			drifts = append(drifts, h)
		}
	}
	w.Drifts = sorted(drifts)
	return w
}

// Below returns the changes of a list whose parents have labels. namespace is that of the
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
			for o, err := range informer.Labelled(ctx, ClientOf(client, m, namespace), selector, informer.PageSize) {
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

// About returns what is known about an object: Drifts, the resolved ones last, and what the function holds of
// it or below it. It is an error where the user may not read a part of it.
func (i *Inspector) About(ctx context.Context, o *unstructured.Unstructured) ([]v1alpha1.Drift, error) {
	w, err := i.WaitingAbout(ctx, o)
	if err != nil {
		return nil, err
	}
	return w.complete()
}

// WaitingAbout is as About, and goes on where the user may not read an object.
func (i *Inspector) WaitingAbout(ctx context.Context, o *unstructured.Unstructured) (out Waiting, err error) {
	obj, err := i.look(ctx, o)
	if err != nil {
		return out, err
	}
	drifts, err := DriftsAbout(ctx, i.Direct.Dynamic, obj.State)
	if err != nil {
		return out, err
	}
	xr := o
	if obj.Role != parent.RoleComposite {
		xr, err = i.composite(ctx, obj.Parent)
		if kerrors.IsForbidden(err) {
			return Waiting{Drifts: drifts, Unread: []error{err}}, nil
		}
		if err != nil || xr == nil {
			return Waiting{Drifts: drifts}, err
		}
	}
	if out, err = HeldBy(ctx, i.Direct.Dynamic, i.mapper, xr); err != nil {
		return out, err
	}
	if obj.Role != parent.RoleComposite {
		out.Drifts = slices.DeleteFunc(out.Drifts, func(d v1alpha1.Drift) bool { return !names(d.Spec.Child, obj.State.Ref) })
		out.Behind = slices.DeleteFunc(out.Behind, func(b Behind) bool { return !names(b.Child, obj.State.Ref) })
	}
	return out.Merged(drifts), nil
}

// composite returns the composite that a parent reference names; nil where it is not a composite or
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
