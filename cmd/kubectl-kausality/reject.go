package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/inspect"
	"github.com/kausality-io/function-kausality/people"
)

type rejectOptions struct {
	decisionOptions
	reason           string
	intent, withdraw bool
}

func (c *cli) rejectCommand() *cobra.Command {
	o := &rejectOptions{}
	cmd := &cobra.Command{
		Use: "reject ID... | TYPE/NAME... --reason TEXT", Short: "Forbid an object's controller to change it unasked.",
		Long: "Writes a rejection of the object onto its parent: what the controller changes of it that nobody asked for is refused, with the " +
			"reason, whatever approvals there are, in both modes, and the gate of a managed resource opens by no approval. It is about the " +
			"object, not about one difference.",
		Example: `  kubectl kausality reject database/orders-da6cb79af0ff --reason "not before the audit is over"

  # Only until somebody changes the parent's spec
  kubectl kausality reject 7642947475a29290 --reason "not in this release" --until-next-intent

  kubectl kausality reject database/orders-da6cb79af0ff --withdraw`,
		ValidArgsFunction: c.completeIDs,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.reject(cmd, args, o) },
	}
	o.add(cmd)
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
	if onlyIDs(args) {
		return c.rejectDrifts(cmd, args, o, i)
	}
	targets, err := c.objects(cmd, args)
	if err != nil {
		return err
	}
	return c.each(&o.decisionOptions, targets, func(t target) (written, error) {
		holder, err := c.holder(cmd.Context(), i, t)
		if err != nil {
			return written{}, err
		}
		if holder.ref() == t.ref() {
			return written{}, fmt.Errorf("%s has no controlling parent: no controller is held back from changing it", t.describe())
		}
		return c.rejection(cmd, holder, o, i, v1alpha1.Rejection{APIVersion: t.GetAPIVersion(), Kind: t.GetKind(), Name: t.GetName()})
	})
}

func (c *cli) rejectDrifts(cmd *cobra.Command, ids []string, o *rejectOptions, i *inspect.Inspector) error {
	list, _, err := c.meant(cmd, ids, false)
	if err != nil {
		return err
	}
	var done []written
	var failed error
	for n := range list {
		d := &list[n]
		holder, err := c.target(refOf(d.Spec.Parent))
		if err != nil {
			return err
		}
		r := v1alpha1.Rejection{APIVersion: d.Spec.Child.APIVersion, Kind: d.Spec.Child.Kind, Name: d.Spec.Child.Name}
		if r.Name == "" {
			r.Resource = d.Spec.Child.Resource
		}
		w, err := c.rejection(cmd, holder, o, i, r)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done = append(done, w)
	}
	return c.report(&o.decisionOptions, done, failed)
}

func (c *cli) rejection(cmd *cobra.Command, holder target, o *rejectOptions, i *inspect.Inspector, r v1alpha1.Rejection) (written, error) {
	if o.withdraw {
		w, err := c.write(cmd.Context(), holder, &o.decisionOptions, v1alpha1.AnnotationKeyRejections, people.WithdrawRejections(r))
		if !w.Unchanged {
			w.Next = "Changes of " + wanted(r.Kind, r.Name, r.Resource) + " can be approved again."
		}
		return w, err
	}
	r.Reason = o.reason
	next := fmt.Sprintf("What the controller of %s changes of %s unasked is refused from now on.", holder.describe(), wanted(r.Kind, r.Name, r.Resource))
	if o.intent {
		if err := i.Direct.Learn(cmd.Context(), holder.GroupVersionKind()); err != nil {
			return written{}, err
		}
		s, err := i.Direct.States.Get(cmd.Context(), holder.ref(), true)
		if err != nil {
			return written{}, fmt.Errorf("cannot read %s: %w", holder.describe(), err)
		}
		intent, _ := trace.Intent(s.State)
		r.Generation = intent.Generation
		next = next[:len(next)-1] + fmt.Sprintf(", until the next intent on %s (now at generation %d).", holder.describe(), r.Generation)
	}
	w, err := c.write(cmd.Context(), holder, &o.decisionOptions, v1alpha1.AnnotationKeyRejections, people.AddRejection(r))
	w.Next = next
	return w, err
}

type freezeOptions struct {
	decisionOptions
	message   string
	overwrite bool
}

func (c *cli) freezeCommand() *cobra.Command {
	o := &freezeOptions{}
	cmd := &cobra.Command{
		Use: "freeze TYPE/NAME... -m TEXT", Short: "Let nothing below an object be changed until it is unfrozen.",
		Example:           `  kubectl kausality freeze xdatabase/orders -m "incident 4711"`,
		ValidArgsFunction: c.completeObjects,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.freeze(cmd, args, o) },
	}
	o.add(cmd)
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "Why, for those who meet it.")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "Put your freeze in the place of somebody else's.")
	return cmd
}

func (c *cli) freeze(cmd *cobra.Command, args []string, o *freezeOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	targets, err := c.objects(cmd, args)
	if err != nil {
		return err
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	at := metav1.NewTime(c.now().UTC().Truncate(time.Second))
	f := v1alpha1.Freeze{User: i.User.Name, Message: o.message, At: &at}
	return c.each(&o.decisionOptions, targets, func(t target) (written, error) {
		if err := c.mayHaveChildren(cmd, i, t, "freeze"); err != nil {
			return written{}, err
		}
		w, err := c.write(cmd.Context(), t, &o.decisionOptions, v1alpha1.AnnotationKeyFreeze, people.Freeze(f, o.overwrite))
		w.Next = "Nothing below it is changed by anybody until: kubectl kausality unfreeze " + t.arg()
		return w, err
	})
}

// mayHaveChildren refuses managed resources: a decision about the children of
// one would have no effect.
func (c *cli) mayHaveChildren(cmd *cobra.Command, i *inspect.Inspector, t target, verb string) error {
	if err := i.Direct.Learn(cmd.Context(), t.GroupVersionKind()); err != nil {
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

func (c *cli) unfreezeCommand() *cobra.Command {
	o := &decisionOptions{}
	cmd := &cobra.Command{
		Use: "unfreeze TYPE/NAME...", Short: "Take a freeze back.",
		ValidArgsFunction: c.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			targets, err := c.objects(cmd, args)
			if err != nil {
				return err
			}
			return c.each(o, targets, func(t target) (written, error) {
				w, err := c.write(cmd.Context(), t, o, v1alpha1.AnnotationKeyFreeze, people.Remove)
				w.Next = "What was asked for meanwhile is carried out now."
				if w.Unchanged {
					w.Next = ""
				}
				return w, err
			})
		},
	}
	o.add(cmd)
	return cmd
}

type snoozeOptions struct {
	decisionOptions
	period  time.Duration
	until   string
	message string
	off     bool
}

func (c *cli) snoozeCommand() *cobra.Command {
	o := &snoozeOptions{}
	cmd := &cobra.Command{
		Use: "snooze TYPE/NAME... --for PERIOD", Short: "Silence notifications about what is below an object; no decision changes.",
		Example: `  kubectl kausality snooze xdatabase/orders --for 24h -m "known, fixed on Monday"
  kubectl kausality snooze xdatabase/orders --off`,
		ValidArgsFunction: c.completeObjects,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.snooze(cmd, args, o) },
	}
	o.add(cmd)
	fl := cmd.Flags()
	fl.DurationVar(&o.period, "for", 0, "For how long, as in 24h or 90m.")
	fl.StringVar(&o.until, "until", "", "Until when, as in 2026-01-05T09:30:00Z.")
	fl.StringVarP(&o.message, "message", "m", "", "Why, for others.")
	fl.BoolVar(&o.off, "off", false, "Take a snooze back.")
	return cmd
}

// expiry that was asked for; zero for off.
func (o *snoozeOptions) expiry(now time.Time) (time.Time, error) {
	given := 0
	for _, is := range []bool{o.period != 0, o.until != "", o.off} {
		if is {
			given++
		}
	}
	if given != 1 {
		return time.Time{}, usageError{errors.New("give one of --for, --until and --off")}
	}
	at := now.Add(o.period)
	if o.until != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, o.until); err != nil {
			return time.Time{}, usageError{fmt.Errorf("--until must be a time as in 2026-01-05T09:30:00Z, not %q", o.until)}
		}
	}
	if o.off {
		return time.Time{}, nil
	}
	if !at.After(now) {
		return time.Time{}, usageError{fmt.Errorf("the snooze would be over at once: %s is not in the future", at.UTC().Format(time.RFC3339))}
	}
	return at.UTC().Truncate(time.Second), nil
}

func (c *cli) snooze(cmd *cobra.Command, args []string, o *snoozeOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	until, err := o.expiry(c.now())
	if err != nil {
		return err
	}
	targets, err := c.objects(cmd, args)
	if err != nil {
		return err
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	return c.each(&o.decisionOptions, targets, func(t target) (written, error) {
		if o.off {
			return c.snoozeOff(cmd, t, &o.decisionOptions)
		}
		s := v1alpha1.Snooze{Expiry: metav1.NewTime(until), User: i.User.Name, Message: o.message}
		w, err := c.write(cmd.Context(), t, &o.decisionOptions, v1alpha1.AnnotationKeySnooze, people.Snooze(s))
		w.Next = "Nobody is notified of what is refused below it until " + until.Format(time.RFC3339) + "."
		return w, err
	})
}

// snoozeOff takes away both forms, the older first.
func (c *cli) snoozeOff(cmd *cobra.Command, t target, o *decisionOptions) (written, error) {
	older, err := c.write(cmd.Context(), t, o, v1alpha1.AnnotationKeyLegacySnooze, people.Remove)
	if err != nil {
		return older, err
	}
	w, err := c.write(cmd.Context(), t, o, v1alpha1.AnnotationKeySnooze, people.Remove)
	if err == nil && w.Unchanged && !older.Unchanged {
		w = older
	}
	return w, err
}
