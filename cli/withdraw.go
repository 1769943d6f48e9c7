package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// newWithdrawCommand returns `kubectl kausality withdraw`: it is approve --withdraw.
func newWithdrawCommand(s *session) *cobra.Command {
	c := &approveCommand{session: s, mode: v1alpha1.ApprovalOnce}
	c.voteOptions.withdraw = true
	cmd := &cobra.Command{
		Use: "withdraw ID... | TYPE/NAME... | TYPE -l LABELS | --cause KEY | -l LABELS | --all", Short: "Withdraw your own approvals.",
		Long: "Withdraws your own approvals of differences that wait; those of other users stay, and so do rejections, which " +
			"kubectl kausality reject --withdraw removes. What an approval has let through already is not undone.",
		Example: `  kubectl kausality withdraw 7642947475a29290

  # Of all pending changes below one object, after confirmation
  kubectl kausality withdraw xdatabase/orders`,
		ValidArgsFunction: completer{s}.ids,
		RunE:              runs(c),
	}
	c.writeOptions.add(cmd)
	c.changeOptions.add(cmd, "All pending changes of the namespace but those of external resources.")
	return cmd
}

// differences returns the differences that are to be decided about. An approval can be withdrawn from an object that is named while nothing waits there: it
// would let the change pass that it is for when that occurs (KR-12-35).
func (c *approveCommand) differences(ctx context.Context) (list []v1alpha1.Drift, group bool, err error) {
	f := driftFinder{c.session}
	c.alsoResolved = c.withdraw
	if !c.withdraw || len(c.args) == 0 || c.given() || c.filtered() || onlyIDs(c.args) {
		return f.selected(c.cmd, c.args, &c.changeOptions)
	}
	if err := misnamed(c.cmd, c.args, &c.changeOptions); err != nil {
		return nil, false, err
	}
	targets, err := c.objects(c.cmd, c.args)
	if err != nil {
		return nil, false, err
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, t := range targets {
		own, err := c.approved(ctx, i, t)
		if err != nil {
			return nil, false, err
		}
		if len(own) == 0 {
			return nil, false, fmt.Errorf("%s has no approval about %s that is not used; kubectl kausality approvals lists who has", i.User.Name, t.describe())
		}
		list = append(list, own...)
	}
	return list, true, nil
}

// approved differences about an object, by the user: those that wait, and others that are approved on the object itself.
func (c *approveCommand) approved(ctx context.Context, i *inspect.Inspector, t target) (list []v1alpha1.Drift, err error) {
	open, err := openAbout(ctx, i, t)
	if err != nil {
		return nil, err
	}
	on := map[v1alpha1.ObjectReference][]string{}
	for _, d := range open {
		ids, read := on[d.Spec.Parent]
		if !read {
			holder, err := c.target(identity.Ref(d.Spec.Parent))
			if err != nil {
				return nil, err
			}
			u, err := holder.client.Get(ctx, holder.GetName(), metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", holder.describe(), err)
			}
			ids = approvedBy(u.GetAnnotations(), i.User.Name)
			on[d.Spec.Parent] = ids
		}
		if slices.Contains(ids, d.Spec.ID) {
			list = append(list, d)
		}
	}
	for _, id := range approvedBy(t.GetAnnotations(), i.User.Name) {
		if !slices.ContainsFunc(list, func(d v1alpha1.Drift) bool { return d.Spec.ID == id }) {
			list = append(list, unlisted(t, id))
		}
	}
	return list, nil
}

// unlisted difference with an id, of which only the approval on an object is known.
func unlisted(t target, id string) v1alpha1.Drift {
	on := identity.ObjectReference(t.ref(), 0, "")
	out := v1alpha1.Drift{Spec: v1alpha1.DriftSpec{ID: id, Parent: on, Child: on, Operation: string(admission.Update), SuggestedApproval: id}}
	out.Name = id
	return out
}
