package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

type freezeOptions struct {
	decisionOptions
	whichOptions
	message   string
	overwrite bool
}

func (c *cli) freezeCommand() *cobra.Command {
	o := &freezeOptions{}
	cmd := &cobra.Command{
		Use: "freeze TYPE/NAME... | TYPE -l LABELS | TYPE --all -m TEXT", Short: "Let nothing below an object be changed until it is unfrozen.",
		Example: `  kubectl kausality freeze xdatabase/orders -m "incident 4711"

  # All of one team; what would be written is shown, and you are asked
  kubectl kausality freeze xdatabases -l team=shop -m "incident 4711"`,
		ValidArgsFunction: c.completeSeveral,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.freeze(cmd, args, o) },
	}
	o.decisionOptions.add(cmd)
	o.whichOptions.add(cmd, allOfType)
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "Why, for those who meet it.")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Put your freeze in the place of somebody else's.")
	return cmd
}

func (c *cli) freeze(cmd *cobra.Command, args []string, o *freezeOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	targets, err := c.which(cmd, args, &o.whichOptions)
	if err != nil {
		return err
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	at := metav1.NewTime(c.now().UTC().Truncate(time.Second))
	f := v1alpha1.Freeze{User: i.User.Name, Message: o.message, At: &at}
	d := o.whichOptions.decision("Freeze %s?")
	for _, t := range targets {
		d.list = append(d.list, intended{
			on: t, key: v1alpha1.AnnotationKeyFreeze, edit: annotate.Freeze(f, o.overwrite), wrong: c.mayHaveChildren(cmd.Context(), i, t, "freeze"),
			next: "Nothing below it is changed by anybody until: kubectl kausality unfreeze " + t.arg(),
		})
	}
	return c.decide(cmd.Context(), &o.decisionOptions, d)
}

// mayHaveChildren refuses managed resources: a decision about the children of
// one would have no effect.
func (c *cli) mayHaveChildren(ctx context.Context, i *inspect.Inspector, t target, verb string) error {
	if err := i.Direct.Learn(ctx, t.GroupVersionKind()); err != nil {
		return err
	}
	s := i.Direct.Sum(t.Unstructured)
	if s.Role != parent.RoleManaged {
		return nil
	}
	hint := ""
	if s.Parent.Name != "" {
		if up, err := c.target(s.Parent); err == nil {
			hint = fmt.Sprintf("; did you mean its parent? kubectl kausality %s %s", verb, up.arg())
		}
	}
	return fmt.Errorf("%s is a managed resource and nobody's parent: this would have no effect%s", t.describe(), hint)
}

type unfreezeOptions struct {
	decisionOptions
	whichOptions
}

func (c *cli) unfreezeCommand() *cobra.Command {
	o := &unfreezeOptions{}
	cmd := &cobra.Command{
		Use: "unfreeze TYPE/NAME... | TYPE -l LABELS | TYPE --all", Short: "Take a freeze back.",
		Example: `  kubectl kausality unfreeze xdatabase/orders

  # Whatever is frozen in the namespace; you are shown by whom and why, and asked
  kubectl kausality unfreeze xdatabases --all`,
		ValidArgsFunction: c.completeSeveral,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.unfreeze(cmd, args, o) },
	}
	o.decisionOptions.add(cmd)
	o.whichOptions.add(cmd, allOfType)
	return cmd
}

func (c *cli) unfreeze(cmd *cobra.Command, args []string, o *unfreezeOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	targets, err := c.which(cmd, args, &o.whichOptions)
	if err != nil {
		return err
	}
	d := o.decision("Unfreeze %s?")
	for _, t := range targets {
		d.list = append(d.list, intended{
			on: t, key: v1alpha1.AnnotationKeyFreeze, edit: annotate.Remove, takeBack: true, next: "What was asked for meanwhile is carried out now.",
		})
	}
	return c.decide(cmd.Context(), &o.decisionOptions, d)
}
