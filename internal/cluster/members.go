package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// Managed returns the MRs below an object as those of a Cluster. Nothing is watched: below a composite is what it references.
func (d *Direct) Managed(ctx context.Context, root *parent.State) ([]*parent.State, error) {
	reviews := func(ref parent.Ref) bool { return d.MayReview(ctx, ref) }
	return managedBelow(ctx, d.Cluster, root, true, reviews, func(o *parent.State) ([]parent.Ref, error) {
		members, err := membersOf(ctx, d, o)
		return append(members, o.Children...), err
	})
}

// membersOf returns the objects of kinds of Crossplane and kro that the ApplySet of an instance contains, without their UIDs (KR-18-01).
func membersOf(ctx context.Context, d *Direct, of *parent.State) (out []parent.Ref, err error) {
	m := parent.MembershipOf(of)
	for _, kind := range m.Kinds {
		mapping, err := d.Kinds.Mapper.RESTMapping(kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot find the resource of kind %s: %w", kind, err)
		}
		if d.Kinds.Kind(mapping.GroupVersionKind).Role == parent.RoleNone {
			continue
		}
		namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
		namespaces := m.Namespaces
		if !namespaced {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			for o, err := range informer.Labelled(ctx, informer.ResourceOf(d.Dynamic, mapping.Resource, namespaced, namespace), m.Selector, informer.PageSize) {
				if err != nil {
					return nil, fmt.Errorf("cannot list what %s contains: %w", identity.Describe(of.Ref), err)
				}
				if s := d.Sum(o).State; s.Member && s.Parent.UID == of.UID && parent.Linked(of, s.Ref, true) {
					s.UID = ""
					out = append(out, s.Ref)
				}
			}
		}
	}
	return out, nil
}
