package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// planWithin is how long the plan of a new Rollout may take.
const planWithin = 30 * time.Second

// rolloutStartCommand makes Rollouts.
type rolloutStartCommand struct {
	rolloutCommand
	waitOptions
	cause, selector, waves string
	after                  time.Duration
	maxUnhealthy           int32
	manual, yes            bool
	// wanted Rollout, without its cause.
	wanted *v1alpha1.RolloutSpec
}

func newRolloutStartCommand(s *session) *cobra.Command {
	c := &rolloutStartCommand{rolloutCommand: rolloutCommand{session: s}}
	cmd := &cobra.Command{
		Use: "start NAME --cause KEY", Short: "Make a Rollout of what waits for a cause, and approve it.",
		Long: "Makes a Rollout of the changes that wait for a cause, shows its waves, and approves it after confirmation. Where ApprovalRules " +
			"need more approvals, others give them by kubectl kausality rollout approve.",
		Example: `  # One object, then a tenth of them, half of them, all of them
  kubectl kausality rollout start pg16 --cause xdatabases-7f3

  # In all namespaces; each wave has an hour to become healthy, and begins by hand
  kubectl kausality rollout start pg16 --cluster --cause xdatabases-7f3 --after 1h --manual`,
		Args: oneName, RunE: runs(c),
	}
	c.addWrite(cmd)
	c.waitOptions.add(cmd, "Follow it until it ends or stops.")
	fl := cmd.Flags()
	fl.StringVar(&c.cause, "cause", "", "Key of the cause, as kubectl kausality pending prints it.")
	fl.StringVarP(&c.selector, "selector", "l", "", "Only objects with these labels, as in team=shop.")
	fl.StringVar(&c.waves, "waves", "1,10%,50%,100%", "Waves: counts of objects, or percent of all that have had their turn.")
	fl.DurationVar(&c.after, "after", rollout.DefaultAfter, "How long the objects of a wave have to become healthy.")
	fl.Int32Var(&c.maxUnhealthy, "max-unhealthy", 0, "How many objects of a wave may be not healthy then.")
	fl.BoolVar(&c.manual, "manual", false, "Each wave after the first waits for kubectl kausality rollout resume.")
	addYes(cmd, &c.yes)
	return cmd
}

// spec returns the spec of the flags, without its cause.
func (c *rolloutStartCommand) spec() (*v1alpha1.RolloutSpec, error) {
	s := &v1alpha1.RolloutSpec{Advance: v1alpha1.RolloutAdvance{After: &metav1.Duration{Duration: c.after}, MaxUnhealthy: c.maxUnhealthy, Manual: c.manual}}
	for _, text := range strings.Split(c.waves, ",") {
		number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return nil, usageError{fmt.Errorf("--waves must be counts and percentages, as in 1,10%%,100%%, not %q", text)}
		}
		w, value := v1alpha1.RolloutWave{}, int32(n)
		if w.Count = &value; percent {
			w.Count, w.Percent = nil, &value
		}
		s.Waves = append(s.Waves, w)
	}
	if c.selector != "" {
		l, err := metav1.ParseToLabelSelector(c.selector)
		if err != nil {
			return nil, usageError{fmt.Errorf("--selector: %w", err)}
		}
		s.Selector = &v1alpha1.RolloutSelector{Labels: l}
	}
	return s, nil
}

// causeOf returns the cause of the pending changes with a key. args are the arguments that select them, with a space before each.
func causeOf(d *v1alpha1.Drift, args string) (v1alpha1.RolloutCause, error) {
	if channel.IsExternalDrift(d) {
		return v1alpha1.RolloutCause{External: true}, nil
	}
	var out v1alpha1.RolloutCause
	fields := map[v1alpha1.CauseKind]*string{
		v1alpha1.CauseComposition: &out.CompositionRevision, v1alpha1.CauseFunction: &out.FunctionRevision, v1alpha1.CauseImage: &out.Image,
		v1alpha1.CauseController: &out.Controller, v1alpha1.CauseUser: &out.User,
	}
	for _, one := range d.Spec.Causes {
		f := fields[one.Kind]
		if one.Kind == v1alpha1.CauseGraph {
			return out, fmt.Errorf("a Rollout cannot select changes by a revision of a graph; to let them pass in steps, approve those of one object, and "+
				"then of more: kubectl kausality approve%s --cause %s --limit 1", args, channel.CauseKey(d))
		}
		if f == nil || *f != "" {
			return out, errors.New("these changes have several causes of one kind, by which a Rollout cannot select them; approve them by " +
				"kubectl kausality approve --cause")
		}
		*f = one.Name
	}
	if len(d.Spec.Causes) == 0 {
		return out, errors.New("the cause of these changes is unknown, so that a Rollout cannot select them; approve them by " +
			"kubectl kausality approve --cause")
	}
	return out, nil
}

// validate validates the cause, and the waves and the selector of the Rollout.
func (c *rolloutStartCommand) validate() (err error) {
	if c.cause == "" {
		return usageError{errors.New("--cause is required; kubectl kausality pending --summary lists the keys")}
	}
	c.wanted, err = c.spec()
	return err
}

// run makes the Rollout, shows its plan and approves it.
func (c *rolloutStartCommand) run(ctx context.Context) error {
	spec := c.wanted
	list, s, err := driftFinder{c.session}.open(c.cmd, nil, &driftFilter{cause: c.cause, selector: c.selector, everywhere: c.cluster})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("nothing waits for approval %s", s.where)
	}
	if spec.Cause, err = causeOf(&list[0], s.args); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if errs := rollout.Invalid(spec, c.in); len(errs) > 0 {
		return usageError{errors.New(strings.Join(errs, "; "))}
	}
	if err := c.create(ctx, spec); err != nil {
		return err
	}
	o, err := c.planned(ctx)
	if err != nil {
		return err
	}
	c.printWaves(c.ErrOut, o)
	if err := c.confirmPlan("Approve %s of %s?", o, c.yes); err != nil {
		fmt.Fprintf(c.ErrOut, "Nothing passes until it is approved: kubectl kausality rollout approve%s\n", c.named())
		return err
	}
	if _, err := c.vote(ctx, o, string(v1alpha1.ApprovalOnce)); err != nil {
		return err
	}
	if c.format.value == formatTable {
		return c.follow(ctx, c.Out, c.wait)
	}
	if c.wait {
		if err := c.follow(ctx, c.ErrOut, true); err != nil {
			return err
		}
	}
	return c.printAs(ctx)
}

func (c *rolloutStartCommand) create(ctx context.Context, spec *v1alpha1.RolloutSpec) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Rollout{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: c.kind()},
		ObjectMeta: metav1.ObjectMeta{Name: c.name(), Namespace: c.in}, Spec: *spec})
	if err != nil {
		return fmt.Errorf("cannot encode the %s: %w", c.kind(), err)
	}
	delete(content, "status")
	if _, err := c.rollouts.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: annotate.FieldManager}); err != nil {
		return fmt.Errorf("cannot make the %s: %w", c.kind(), err)
	}
	return nil
}

// planned Rollout, once its plan is made.
func (c *rolloutStartCommand) planned(ctx context.Context) (o *v1alpha1.Rollout, err error) {
	w := waitOptions{timeout: planWithin}
	err = w.until(ctx, func(ctx context.Context) (string, error) {
		if o, err = c.get(ctx); err != nil {
			return "", err
		}
		switch {
		case o.Status.Phase == v1alpha1.RolloutInvalid:
			return "", fmt.Errorf("%s %s: %s", c.kind(), c.name(), o.Status.Message)
		case o.Status.Plan == nil:
			return "its plan is not made yet; does the webhook of Kausality run?", nil
		case o.Status.Plan.Objects == 0:
			return "nothing waits for this cause any more", nil
		}
		return "", nil
	})
	return o, err
}
