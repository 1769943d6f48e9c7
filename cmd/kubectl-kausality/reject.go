package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

type rejectOptions struct {
	decisionOptions
	whichOptions
	reason           string
	intent, withdraw bool
}

func (c *cli) rejectCommand() *cobra.Command {
	o := &rejectOptions{}
	cmd := &cobra.Command{
		Use: "reject ID... | TYPE/NAME... | TYPE -l LABELS | --all --reason TEXT", Short: "Forbid an object's controller to change it unasked.",
		Long: "Writes a rejection of the object onto its parent: what the controller changes of it that nobody asked for is refused, with the " +
			"reason, whatever approvals there are, in both modes, and the gate of a managed resource opens by no approval. It is about the " +
			"object, not about one difference.",
		Example: `  kubectl kausality reject database/orders-da6cb79af0ff --reason "not before the audit is over"

  # Only until somebody changes the parent's spec
  kubectl kausality reject 7642947475a29290 --reason "not in this release" --until-next-intent

  # The objects of all that waits in the namespace; you are asked
  kubectl kausality reject --all --reason "not before the audit is over"

  kubectl kausality reject database/orders-da6cb79af0ff --withdraw`,
		ValidArgsFunction: c.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.reject(cmd, args, o) },
	}
	o.decisionOptions.add(cmd)
	o.whichOptions.add(cmd, "The objects of all that waits in the namespace.")
	cmd.Flags().StringVarP(&o.reason, "reason", "m", "", "Why, for those who meet it; required.")
	cmd.Flags().BoolVar(&o.intent, "until-next-intent", false, "Hold until the next intent on the parent, not for ever.")
	cmd.Flags().BoolVar(&o.withdraw, "withdraw", false, "Take the rejections of the objects back.")
	return cmd
}

func (c *cli) reject(cmd *cobra.Command, args []string, o *rejectOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	switch {
	case o.withdraw && (o.reason != "" || o.intent):
		return usageError{errors.New("--withdraw takes rejections back; give no --reason and no --until-next-intent with it")}
	case o.reason == "" && !o.withdraw:
		return usageError{errors.New("--reason is required: those who meet the rejection must be told")}
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	d := o.whichOptions.decision("Write the rejections of %s?")
	if o.withdraw {
		d.question = "Withdraw the rejections of %s?"
	}
	if d.list, err = c.rejections(cmd, args, o, i); err != nil {
		return err
	}
	return c.decide(cmd.Context(), &o.decisionOptions, d)
}

// rejections of objects that are named, or that what waits is about.
func (c *cli) rejections(cmd *cobra.Command, args []string, o *rejectOptions, i *inspect.Inspector) ([]intended, error) {
	if o.all || onlyIDs(args) && !o.given() {
		list, _, err := c.meant(cmd, args, &o.whichOptions)
		if err != nil {
			return nil, err
		}
		return c.rejectDrifts(cmd.Context(), list, o, i), nil
	}
	targets, err := c.which(cmd, args, &o.whichOptions)
	if err != nil {
		return nil, err
	}
	out := make([]intended, 0, len(targets))
	for _, t := range targets {
		holder, err := c.holder(cmd.Context(), i, t)
		if err == nil && holder.ref() == t.ref() {
			err = fmt.Errorf("%s has no controlling parent: no controller is held back from changing it", t.describe())
		}
		if err != nil {
			out = append(out, intended{on: t, wrong: err})
			continue
		}
		r := v1alpha1.Rejection{APIVersion: t.GetAPIVersion(), Kind: t.GetKind(), Name: t.GetName()}
		out = append(out, c.rejection(cmd.Context(), holder, o, i, r, of(t, holder)))
	}
	return out, nil
}

// rejectDrifts rejects the objects of Drifts, each once.
func (c *cli) rejectDrifts(ctx context.Context, list []v1alpha1.Drift, o *rejectOptions, i *inspect.Inspector) []intended {
	type object struct{ holder, child v1alpha1.ObjectReference }
	have := map[object]bool{}
	var out []intended
	for n := range list {
		s := &list[n].Spec
		if have[object{s.Parent, s.Child}] {
			continue
		}
		have[object{s.Parent, s.Child}] = true
		holder, err := c.target(refOf(s.Parent))
		if err != nil {
			out = append(out, intended{head: describeRef(s.Child), wrong: err})
			continue
		}
		r := v1alpha1.Rejection{APIVersion: s.Child.APIVersion, Kind: s.Child.Kind, Name: s.Child.Name}
		if r.Name == "" {
			r.Resource = s.Child.Resource
		}
		out = append(out, c.rejection(ctx, holder, o, i, r, describeRef(s.Child)+", on "+holder.describe()))
	}
	return out
}

func (c *cli) rejection(ctx context.Context, holder target, o *rejectOptions, i *inspect.Inspector, r v1alpha1.Rejection, head string) intended {
	out := intended{on: holder, head: head, key: v1alpha1.AnnotationKeyRejections}
	if o.withdraw {
		out.edit, out.takeBack = annotate.WithdrawRejections(r), true
		out.next = "Changes of " + wanted(r.Kind, r.Name, r.Resource) + " can be approved again."
		return out
	}
	r.Reason = o.reason
	out.next = fmt.Sprintf("What the controller of %s changes of %s unasked is refused from now on", holder.describe(), wanted(r.Kind, r.Name, r.Resource))
	if o.intent {
		if out.wrong = i.Direct.Learn(ctx, holder.GroupVersionKind()); out.wrong != nil {
			return out
		}
		s, err := i.Direct.States.Get(ctx, holder.ref(), true)
		if err != nil {
			out.wrong = fmt.Errorf("cannot read %s: %w", holder.describe(), err)
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
