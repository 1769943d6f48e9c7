package inspect

import (
	"context"
	"errors"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/settling"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// maxRulings bounds the parents that are read for what was decided about the changes below them; about the others that is unknown.
const maxRulings = 200

// Rulings are what was decided about changes, by their parents, each of which is read once.
type Rulings struct {
	i       *Inspector
	parents map[parent.Ref]*parent.State
	// Unread are the errors of parents that could not be read.
	Unread []error
}

// Rulings of pending changes.
func (i *Inspector) Rulings() *Rulings {
	return &Rulings{i: i, parents: map[parent.Ref]*parent.State{}}
}

// Of a pending change (KR-12-30).
func (s *Rulings) Of(ctx context.Context, d *v1alpha1.Drift) (out channel.Ruling, err error) {
	p, err := s.parent(ctx, identity.Ref(d.Spec.Parent))
	if err != nil || p == nil {
		return out, err
	}
	_, out.Approved = p.Annotations[annotate.ApproveKey(d.Name)]
	now := s.i.options.Now()
	if r, ok := settling.Rejected(&d.Spec, p, now); ok {
		out.Rejected = &r
	}
	if set := approval.ParseAt(p.Annotations, now); set.Snoozed(now) {
		out.Snoozed = set.Snooze
	}
	out.Frozen, err = s.i.FreezeOf(ctx, p)
	return out, err
}

// OfAll changes of a list (KR-12-30).
func (s *Rulings) OfAll(ctx context.Context, list []v1alpha1.Drift) (func(*v1alpha1.Drift) channel.Ruling, error) {
	known := map[string]channel.Ruling{}
	for n := range list {
		one, err := s.Of(ctx, &list[n])
		if err != nil {
			return nil, err
		}
		known[list[n].Namespace+"/"+list[n].Name] = one
	}
	return func(d *v1alpha1.Drift) channel.Ruling { return known[d.Namespace+"/"+d.Name] }, nil
}

// parent of a change; nil where there is none, or it is unknown.
func (s *Rulings) parent(ctx context.Context, ref parent.Ref) (*parent.State, error) {
	if have, ok := s.parents[ref]; ok || ref.Name == "" || len(s.parents) >= maxRulings {
		return have, nil
	}
	s.parents[ref] = nil
	p, err := s.i.world.Parent(ctx, ref, true)
	switch {
	case errors.Is(err, admission.ErrNotFound):
	case kerrors.IsForbidden(err):
		s.Unread = append(s.Unread, err)
	case err != nil:
		return nil, err
	default:
		s.parents[ref] = p
	}
	return s.parents[ref], nil
}

// FreezeOf an object: its own, else that of its Namespace or of a policy (KR-14-35); nil for none. What the user may not read is left out.
func (i *Inspector) FreezeOf(ctx context.Context, s *parent.State) (*identity.Freeze, error) {
	by, err := i.Direct.Covering(ctx, s)
	if err != nil && !kerrors.IsForbidden(err) {
		return nil, err
	}
	return identity.FreezeOf(s, i.Direct.Kinds.Kind(s.GroupVersionKind), by, i.options.Now()), nil
}

// FreezeAbout an object: its own where it is a parent, else that of its parent; nil for none.
func (i *Inspector) FreezeAbout(ctx context.Context, o *unstructured.Unstructured) (*identity.Freeze, error) {
	obj, err := i.look(ctx, o)
	if err != nil {
		return nil, err
	}
	s := obj.State
	if !isParent(s) {
		if s, err = i.Rulings().parent(ctx, obj.Parent); err != nil || s == nil {
			return nil, err
		}
	}
	return i.FreezeOf(ctx, s)
}
