package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// rejectCommand writes rejections of objects, or removes them.
type rejectCommand struct {
	*session
	arguments
	writeOptions
	changeOptions
	reason           string
	intent, withdraw bool
}

// newRejectCommand returns `kubectl kausality reject`: it writes entries of the
// annotation rejections on parents.
func newRejectCommand(s *session) *cobra.Command {
	c := &rejectCommand{session: s}
	cmd := &cobra.Command{
		Use: "reject ID... | TYPE/NAME... | TYPE -l LABELS | --cause KEY | --all --reason TEXT", Short: "Reject drift of an object.",
		Long: "Writes a rejection of the object onto its parent: unrequested changes that the controller makes to it are refused with the " +
			"reason, whatever approvals exist, in both modes, and no approval opens the gate of a managed resource. A rejection is about " +
			"the object, not about one difference.",
		Example: `  kubectl kausality reject database/orders-da6cb79af0ff --reason "not before the audit is over"

  # Only until the parent's spec is changed
  kubectl kausality reject 7642947475a29290 --reason "not in this release" --until-next-intent

  # The objects that one cause would change in all namespaces
  kubectl kausality reject -A --cause xdatabases-7f3 --reason "SHOP-17: wrong tier"

  # The objects of all pending changes of the namespace, after confirmation
  kubectl kausality reject --all --reason "not before the audit is over"

  kubectl kausality reject database/orders-da6cb79af0ff --withdraw`,
		ValidArgsFunction: completer{s}.ids,
		RunE:              runs(c),
	}
	c.writeOptions.add(cmd)
	c.changeOptions.add(cmd, "The objects of all pending changes of the namespace but those of external resources.")
	cmd.Flags().VarP((*sentences)(&c.reason), "reason", "m", "Reason, part of each refusal; required.")
	cmd.Flags().BoolVar(&c.intent, "until-next-intent", false, "Valid until the next intent on the parent instead of for ever.")
	cmd.Flags().BoolVar(&c.withdraw, "withdraw", false, "Remove the rejections of the objects.")
	return cmd
}

// validate validates the selection, and the flags that exclude each other.
func (c *rejectCommand) validate() error {
	if err := c.checkSelection(); err != nil {
		return err
	}
	switch {
	case c.withdraw && (c.reason != "" || c.intent):
		return usageError{errors.New("--withdraw removes rejections; give no --reason and no --until-next-intent with it")}
	case c.reason == "" && !c.withdraw:
		return usageError{errors.New("--reason is required: it is part of each refusal")}
	}
	return misnamed(c.cmd, c.args, &c.changeOptions)
}

// run writes rejections, or removes them with --withdraw.
func (c *rejectCommand) run(ctx context.Context) error {
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	d := c.changeOptions.decision("Write the rejections of %s?")
	if c.withdraw {
		d.question = "Withdraw the rejections of %s?"
	}
	if d.list, err = c.rejections(ctx, i); err != nil {
		return err
	}
	return writer{c.session, &c.writeOptions}.decide(ctx, d)
}

// rejections returns the rejections of objects that are named, or that pending changes are about.
func (c *rejectCommand) rejections(ctx context.Context, i *inspect.Inspector) ([]annotationWrite, error) {
	if c.cause != "" || len(c.args) == 0 && c.given() || onlyIDs(c.args) && !c.filtered() {
		list, _, err := driftFinder{c.session}.selected(c.cmd, c.args, &c.changeOptions)
		if err != nil {
			return nil, err
		}
		return c.drifts(ctx, list, i), nil
	}
	targets, err := c.session.selected(c.cmd, c.args, &c.selectOptions)
	if err != nil {
		return nil, err
	}
	out := make([]annotationWrite, 0, len(targets))
	for _, t := range targets {
		holder, err := c.rejectionHolder(ctx, i, t)
		noParent := noParentError{}
		if errors.As(err, &noParent) {
			out = append(out, c.below(ctx, i, t, err)...)
			continue
		}
		if err != nil {
			out = append(out, annotationWrite{on: t, err: err})
			continue
		}
		r := v1alpha1.Rejection{APIVersion: t.GetAPIVersion(), Kind: t.GetKind(), Name: t.GetName()}
		out = append(out, c.rejection(ctx, holder, i, r, about(t, holder)))
	}
	return out, nil
}

// below returns the writes for an object without a parent, such as a composite: the objects that pending changes
// are about, as approve selects them; with --withdraw, all of its rejections. none is the
// error where there is nothing (KR-12-25).
func (c *rejectCommand) below(ctx context.Context, i *inspect.Inspector, t target, none error) []annotationWrite {
	if c.withdraw {
		if _, ok := t.GetAnnotations()[v1alpha1.AnnotationKeyRejections]; !ok {
			return []annotationWrite{{on: t, err: none}}
		}
		return []annotationWrite{{
			on: t, key: v1alpha1.AnnotationKeyRejections, edit: annotate.Remove, isRemoval: true,
			next: "Changes of all objects below it can be approved again.",
		}}
	}
	list, err := openAbout(ctx, i, t)
	if err != nil {
		return []annotationWrite{{on: t, err: err}}
	}
	if len(list) == 0 {
		return []annotationWrite{{on: t, err: fmt.Errorf("%w; and nothing waits for approval below it", none)}}
	}
	return c.drifts(ctx, list, i)
}

// rejectionHolder returns the object whose annotations hold rejections about another one: its
// parent, guarded or not, since a rejection only forbids.
func (c *rejectCommand) rejectionHolder(ctx context.Context, i *inspect.Inspector, t target) (target, error) {
	_, up, err := decisionHolder(ctx, i, t)
	if err != nil {
		return target{}, err
	}
	if up == nil {
		return target{}, noParentError{t.describe()}
	}
	return c.target(up.State.Ref)
}

// drifts rejects the objects of Drifts, each once.
func (c *rejectCommand) drifts(ctx context.Context, list []v1alpha1.Drift, i *inspect.Inspector) []annotationWrite {
	type object struct{ holder, child v1alpha1.ObjectReference }
	have := map[object]bool{}
	var out []annotationWrite
	for n := range list {
		s := &list[n].Spec
		if have[object{s.Parent, s.Child}] {
			continue
		}
		have[object{s.Parent, s.Child}] = true
		holder, err := c.target(identity.Ref(s.Parent))
		if err != nil {
			out = append(out, annotationWrite{head: channel.Describe(s.Child), err: err})
			continue
		}
		out = append(out, c.rejection(ctx, holder, i, channel.RejectionOf(&list[n]), channel.Describe(s.Child)+", on "+holder.describe()))
	}
	return out
}

// rejection of one object on its holder (KR-05-38). With --until-next-intent it has
// the generation of the holder's current intent.
func (c *rejectCommand) rejection(ctx context.Context, holder target, i *inspect.Inspector, r v1alpha1.Rejection, head string) annotationWrite {
	out := annotationWrite{on: holder, head: head, key: v1alpha1.AnnotationKeyRejections}
	if c.withdraw {
		out.edit, out.isRemoval = annotate.WithdrawRejections(r), true
		out.next = "Changes of " + matched(r.Kind, r.Name, r.Resource) + " can be approved again."
		return out
	}
	r.Reason = c.reason
	out.next = fmt.Sprintf("Unrequested changes of %s by the controller of %s are refused from now on", matched(r.Kind, r.Name, r.Resource), holder.describe())
	if c.intent {
		if out.err = i.Direct.Learn(ctx, holder.GroupVersionKind()); out.err != nil {
			return out
		}
		s, err := i.Direct.States.Get(ctx, holder.ref(), true)
		if err != nil {
			out.err = fmt.Errorf("cannot read %s: %w", holder.describe(), err)
			return out
		}
		intent, _ := trace.Intent(s.State)
		r.Generation = intent.Generation
		out.next += fmt.Sprintf(", until the next intent on %s (now at generation %d)", holder.describe(), r.Generation)
	}
	out.next += "."
	out.edit = annotate.AddRejection(r)
	return out
}
