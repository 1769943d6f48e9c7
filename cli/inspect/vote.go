package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/allowance"
	"github.com/kausality-io/function-kausality/admission/approve"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/mask"
	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Cast returns what became of the approval of the user for the difference that a Drift shows, by the annotations of its parent before and after the user
// wrote it (KR-14-44). The error is Forbidden where the user may not read what decides about it.
func (i *Inspector) Cast(ctx context.Context, d *v1alpha1.Drift, before, after map[string]string) (approve.Cast, error) {
	now := i.options.Now()
	set, err := i.policies(ctx)
	if err != nil {
		return approve.CastOf(&d.Spec, i.User.Name, before, after, nil, allowance.Authors{}, now), err
	}
	if !set.HasRules() {
		return approve.CastOf(&d.Spec, i.User.Name, before, after, nil, allowance.Authors{}, now), nil
	}
	child, err := readRef(ctx, i.Direct.Dynamic, i.mapper, identity.Ref(d.Spec.Child))
	if d.Spec.Child.Name == "" || errors.Is(err, admission.ErrNotFound) {
		child, err = &unstructured.Unstructured{}, nil
	}
	if err != nil {
		return approve.CastOf(&d.Spec, i.User.Name, before, after, nil, allowance.Authors{}, now), err
	}
	of := rollout.ChangeOf(&d.Spec, child.GetLabels())
	if ns, err := i.Direct.Namespace(ctx, of.Namespace); err == nil {
		of.NamespaceLabels = ns.Labels // rules match where they are not known (KR-14-23)
	}
	names, err := i.authors(ctx, d, child)
	return approve.CastOf(&d.Spec, i.User.Name, before, after, set.Matching(&of), allowance.Authors{Names: names}, now), err
}

// authors returns the authors of the difference that a Drift shows: of an external one, and of a deletion, those of the child, of another one those of the
// parent and of the causes (KR-14-61, KR-14-62).
func (i *Inspector) authors(ctx context.Context, d *v1alpha1.Drift, child *unstructured.Unstructured) ([]string, error) {
	switch {
	case d.Spec.Operation == string(admission.Delete):
		return slices.Concat(trace.Authors(child.GetAnnotations(), math.MaxInt64), d.Status.Requesters), nil
	case d.Spec.Relation == v1alpha1.RelationExternal:
		return trace.Authors(child.GetAnnotations(), mask.ParseGate(child.GetAnnotations()).Generation), nil
	}
	p, err := i.world.Parent(ctx, identity.Ref(d.Spec.Parent), true)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", identity.Describe(identity.Ref(d.Spec.Parent)), err)
	}
	return rollout.Authors(&d.Spec, trace.Authors(p.Annotations, rollout.HeldSince(d, p))), nil
}

// RulesAbout returns the names of the ApprovalRules that require votes for some change of an object in a relation: for these, approvals without an id
// do not count (KR-14-03).
func (i *Inspector) RulesAbout(ctx context.Context, o *unstructured.Unstructured, relation v1alpha1.Relation) ([]string, error) {
	set, err := i.policies(ctx)
	if err != nil || !set.HasRules() {
		return nil, err
	}
	c := allowance.Change{Kind: o.GroupVersionKind().GroupKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Relation: relation}
	if ns, err := i.Direct.Namespace(ctx, c.Namespace); err == nil {
		c.NamespaceLabels = ns.Labels
	}
	return lists.Map(set.About(&c), func(r *allowance.Rule) string { return r.Name }), nil
}
