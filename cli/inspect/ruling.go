package inspect

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

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

// maxReads of parents at a time.
const maxReads = 8

// Rulings are what was decided about changes, by their parents, each of which is read once.
type Rulings struct {
	i       *Inspector
	parents map[parent.Ref]*parent.State
	// Unread are the errors of parents that could not be read, each once.
	Unread []error
}

// Rulings returns the rulings of pending changes.
func (i *Inspector) Rulings() *Rulings {
	return &Rulings{i: i, parents: map[parent.Ref]*parent.State{}}
}

// Of returns the ruling of each pending change of a list (KR-12-30).
func (s *Rulings) Of(ctx context.Context, list []v1alpha1.Drift) (func(*v1alpha1.Drift) channel.Ruling, error) {
	if err := s.readAll(ctx, list); err != nil {
		return nil, err
	}
	known, below := map[string]channel.Ruling{}, map[parent.Ref]channel.Ruling{}
	for n := range list {
		d := &list[n]
		ref := identity.Ref(d.Spec.Parent)
		p := s.parents[ref]
		if p == nil {
			continue
		}
		common, ok := below[ref]
		if !ok {
			var err error
			if common, err = s.below(ctx, p); err != nil {
				return nil, err
			}
			below[ref] = common
		}
		if one := s.about(d, p, common); one != (channel.Ruling{}) {
			known[d.Namespace+"/"+d.Name] = one
		}
	}
	return func(d *v1alpha1.Drift) channel.Ruling { return known[d.Namespace+"/"+d.Name] }, nil
}

// below returns what was decided about a parent: what was decided about all changes there.
func (s *Rulings) below(ctx context.Context, p *parent.State) (out channel.Ruling, err error) {
	now := s.i.options.Now()
	if set := approval.ParseAt(p.Annotations, now); set.Snoozed(now) {
		out.Snoozed = set.Snooze
	}
	out.Frozen, err = s.i.FreezeOf(ctx, p)
	return out, err
}

// about returns the ruling of a change, with what was decided about all below its parent.
func (s *Rulings) about(d *v1alpha1.Drift, p *parent.State, below channel.Ruling) channel.Ruling {
	_, below.Approved = p.Annotations[annotate.ApproveKey(d.Name)]
	if r, ok := settling.Rejected(&d.Spec, p, s.i.options.Now()); ok {
		below.Rejected = &r
	}
	return below
}

// readAll parents of a list that are not known yet, several at a time.
func (s *Rulings) readAll(ctx context.Context, list []v1alpha1.Drift) error {
	var refs []parent.Ref
	listed := sets.New[parent.Ref]()
	for n := range list {
		ref := identity.Ref(list[n].Spec.Parent)
		if _, ok := s.parents[ref]; ok || ref.Name == "" || listed.Has(ref) || len(s.parents)+len(refs) >= maxRulings {
			continue
		}
		listed.Insert(ref)
		refs = append(refs, ref)
	}
	states, errs := make([]*parent.State, len(refs)), make([]error, len(refs))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for n, ref := range refs {
		group.Go(func() error {
			states[n], errs[n] = s.i.world.Parent(reading, ref, true)
			if missing(errs[n]) {
				return nil
			}
			return errs[n] // the others are not read then
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for n, ref := range refs {
		if err := s.keep(ref, states[n], errs[n]); err != nil {
			return err
		}
	}
	return nil
}

// missing reports whether the error of a parent is that there is none, that the user may not read it, or that its CRD was removed.
func missing(err error) bool {
	return errors.Is(err, admission.ErrNotFound) || kerrors.IsForbidden(err) || meta.IsNoMatchError(err)
}

// parent returns the parent of a change; nil where there is none, or it is unknown.
func (s *Rulings) parent(ctx context.Context, ref parent.Ref) (*parent.State, error) {
	if have, ok := s.parents[ref]; ok || ref.Name == "" || len(s.parents) >= maxRulings {
		return have, nil
	}
	p, err := s.i.world.Parent(ctx, ref, true)
	err = s.keep(ref, p, err)
	return s.parents[ref], err
}

// keep keeps a parent as it was read.
func (s *Rulings) keep(ref parent.Ref, p *parent.State, err error) error {
	if err != nil && !missing(err) {
		return err
	}
	s.parents[ref] = nil
	switch {
	case err == nil:
		s.parents[ref] = p
	case !errors.Is(err, admission.ErrNotFound):
		s.leaveOut(err)
	}
	return nil
}

// leaveOut notes a parent that cannot be read.
func (s *Rulings) leaveOut(err error) {
	if !slices.ContainsFunc(s.Unread, func(have error) bool { return have.Error() == err.Error() }) {
		s.Unread = append(s.Unread, err)
	}
}

// FreezeOf returns the freeze of an object: its own, else that of its Namespace or of a policy (KR-14-35); nil for none. What the user may not read is left
// out.
func (i *Inspector) FreezeOf(ctx context.Context, s *parent.State) (*identity.Freeze, error) {
	by, err := i.Direct.Covering(ctx, s)
	if err != nil && !kerrors.IsForbidden(err) {
		return nil, err
	}
	return identity.FreezeOf(s, i.Direct.Kinds.Kind(s.GroupVersionKind), by, i.options.Now()), nil
}

// FreezeAbout returns the freeze of an object: its own where it is a parent, else that of its parent; nil for none.
func (i *Inspector) FreezeAbout(ctx context.Context, o *unstructured.Unstructured) (*identity.Freeze, error) {
	obj, err := i.look(ctx, o)
	if err != nil {
		return nil, err
	}
	s := obj.State
	if !isParent(s) {
		child := s
		if s, err = i.Rulings().parent(ctx, obj.Parent); err != nil || s == nil || !parent.Linked(s, child.Ref, child.Member) {
			return nil, err
		}
	}
	return i.FreezeOf(ctx, s)
}
