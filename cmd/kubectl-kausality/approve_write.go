package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/admission/identity"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// approveDrift on the parent that the Drift names.
func (c *cli) approveDrift(d *v1alpha1.Drift, o *approveOptions) intended {
	t, err := c.target(refOf(d.Spec.Parent))
	if err != nil {
		return intended{head: d.Name + "  " + summary(d), wrong: err}
	}
	return intended{
		on: t, head: d.Name + "  " + summary(d), key: annotate.ApproveKey(d.Spec.ID), edit: annotate.Approve(d.Spec.ID, v1alpha1.ApprovalMode(o.mode)),
		next: c.afterApproval(d), warn: c.obstacles,
	}
}

// obstacles on a parent that go before any approval.
func (c *cli) obstacles(ctx context.Context, t target) ([]string, error) {
	u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", t.describe(), err)
	}
	set := approval.Parse(u.GetAnnotations())
	out := set.Warnings
	if f := set.Freeze; f != nil {
		out = append(out, t.describe()+" is frozen"+said(f.User, f.Message, f.At)+"; nothing passes until it is unfrozen")
	}
	if len(set.Rejections) > 0 {
		out = append(out, t.describe()+" has rejections, and one that fits goes before any approval")
	}
	return out, nil
}

// afterApproval says what happens now.
func (c *cli) afterApproval(d *v1alpha1.Drift) string {
	deletion := d.Spec.Operation == string(admission.Delete)
	switch {
	case d.Spec.Relation == v1alpha1.RelationExternal && deletion:
		t, err := c.target(refOf(d.Spec.Child))
		if err != nil {
			return "The gate opens for Delete; then delete it again."
		}
		return "The gate opens for Delete; then delete it again: kubectl delete " + strings.Replace(t.arg(), "/", " ", 1)
	case d.Spec.Relation == v1alpha1.RelationExternal:
		return "The gate opens for exactly this, and closes when the provider has confirmed it."
	}
	return "Its controller carries it out when it next reconciles " + describeRef(d.Spec.Parent) + "."
}

// lasts says how long an approval does.
var lasts = map[v1alpha1.ApprovalMode]string{
	v1alpha1.ApprovalOnce: "once", v1alpha1.ApprovalGeneration: "until the next intent on its parent", v1alpha1.ApprovalAlways: "until the approval is removed",
}

// approveInAdvance on the parent of each object, or on the object itself where
// it has none.
func (c *cli) approveInAdvance(cmd *cobra.Command, args []string, o *approveOptions) error {
	if o.all || slices.ContainsFunc(args, isID) {
		return usageError{errors.New("--any and --digest need objects, named as TYPE/NAME or with --selector")}
	}
	targets, err := c.which(cmd, args, &o.whichOptions)
	if err != nil {
		return err
	}
	if o.digest != "" && len(targets) != 1 {
		return usageError{errors.New("--digest is the id of one difference; name one object")}
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	d := o.whichOptions.decision("Approve whatever their controllers change of %s (" + o.mode + ")?")
	if len(o.external) > 0 {
		d.question = "Let the gates of %s open for " + strings.Join(o.external, ", ") + " (" + o.mode + ")?"
	}
	for _, t := range targets {
		d.list = append(d.list, c.advance(cmd.Context(), i, t, o))
	}
	return c.decide(cmd.Context(), &o.decisionOptions, d)
}

// advance approval for an object.
func (c *cli) advance(ctx context.Context, i *inspect.Inspector, t target, o *approveOptions) intended {
	holder, err := c.holder(ctx, i, t)
	if err != nil {
		return intended{on: t, wrong: err}
	}
	a := v1alpha1.Approval{APIVersion: t.GetAPIVersion(), Kind: t.GetKind(), Name: t.GetName(), Mode: v1alpha1.ApprovalMode(o.mode), Digest: o.digest}
	next := "What its controller changes of " + t.describe() + " passes, " + lasts[a.Mode] + "."
	if len(o.external) > 0 {
		a.Relation = v1alpha1.RelationExternal
		for _, v := range o.external {
			a.Verbs = append(a.Verbs, v1alpha1.Verb(v))
		}
		next = fmt.Sprintf("The gate of %s may open for %s, %s.", t.describe(), verbs(a.Verbs), lasts[a.Mode])
	}
	return intended{
		on: holder, head: of(t, holder), key: v1alpha1.AnnotationKeyApprovals, edit: annotate.AddApproval(a), next: next, warn: c.obstacles,
	}
}

// holder of approvals and rejections about an object: its parent, else itself if
// it is a managed resource.
func (c *cli) holder(ctx context.Context, i *inspect.Inspector, t target) (target, error) {
	if err := i.Direct.Learn(ctx, t.GroupVersionKind()); err != nil {
		return target{}, err
	}
	s := i.Direct.Sum(t.Unstructured)
	switch {
	case s.Parent.Name != "":
		up, err := i.Direct.States.Get(ctx, s.Parent, true)
		if errors.Is(err, admission.ErrNotFound) {
			return target{}, fmt.Errorf("the parent of %s, %s, does not exist", t.describe(), identity.Describe(s.Parent))
		}
		if err != nil {
			return target{}, fmt.Errorf("cannot read %s: %w", identity.Describe(s.Parent), err)
		}
		return c.target(up.State.Ref)
	case s.Role == parent.RoleManaged:
		return t, nil
	}
	return target{}, fmt.Errorf("%s has no controlling parent: no controller is held back from changing it", t.describe())
}
