package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/rollout"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// rolloutCommand has what the commands about one Rollout share.
type rolloutCommand struct {
	*session
	// cluster: it is a ClusterRollout.
	cluster bool
}

// newRolloutCommand is `kubectl kausality rollout`.
func newRolloutCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rollout", Short: "Let the pending changes of one cause pass in waves.",
		Long: "Lets the pending changes of one cause pass in waves, each after the one before is healthy. What is let through is fixed " +
			"when the Rollout is approved.",
		RunE: helpOrUnknown,
	}
	cmd.AddCommand(newRolloutStartCommand(s), newRolloutStatusCommand(s), newRolloutApproveCommand(s), newRolloutStopCommand(s), newRolloutResumeCommand(s))
	return cmd
}

// add the flag that all have.
func (c *rolloutCommand) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.cluster, "cluster", false, "It is a ClusterRollout, of all namespaces.")
}

// oneName of a Rollout is the argument.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return usageError{fmt.Errorf("give one name, as in: %s pg16", cmd.CommandPath())}
}

// kind of the Rollout.
func (c *rolloutCommand) kind() string {
	if c.cluster {
		return v1alpha1.KindClusterRollout
	}
	return v1alpha1.KindRollout
}

// resource of the Rollouts, in the namespace.
func (c *rolloutCommand) resource() (dynamic.ResourceInterface, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	if c.cluster {
		return client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterRollouts)), nil
	}
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	return client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)).Namespace(ns), nil
}

// flags that name this Rollout in a command line.
func (c *rolloutCommand) named(name string) string {
	if c.cluster {
		return " " + name + " --cluster"
	}
	if ns, err := c.namespace(); err == nil && ns != metav1.NamespaceDefault {
		return " " + name + " -n " + ns
	}
	return " " + name
}

// get a Rollout: both kinds have the same content.
func (c *rolloutCommand) get(ctx context.Context, r dynamic.ResourceInterface, name string) (*v1alpha1.Rollout, error) {
	u, err := r.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", c.kind(), name, err)
	}
	out := &v1alpha1.Rollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("cannot decode %s %s: %w", c.kind(), name, err)
	}
	return out, nil
}

// patch a Rollout as it was read: where it changed since, the error is a conflict.
func (c *rolloutCommand) patch(ctx context.Context, r dynamic.ResourceInterface, o *v1alpha1.Rollout, format string, args ...any) error {
	body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},`, o.ResourceVersion) + fmt.Sprintf(format, args...) + "}"
	_, err := r.Patch(ctx, o.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubectl-kausality"})
	if err != nil {
		return fmt.Errorf("cannot change %s %s: %w", c.kind(), o.Name, err)
	}
	return nil
}

// rolloutStartCommand makes Rollouts.
type rolloutStartCommand struct {
	rolloutCommand
	waitOptions
	cause, selector, waves string
	after                  time.Duration
	maxUnhealthy           int32
	manual, yes            bool
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
		Args: oneName, RunE: c.run,
	}
	c.rolloutCommand.add(cmd)
	c.waitOptions.add(cmd, "Follow it until it ends or stops.")
	fl := cmd.Flags()
	fl.StringVar(&c.cause, "cause", "", "Key of the cause, as kubectl kausality pending prints it.")
	fl.StringVarP(&c.selector, "selector", "l", "", "Only objects with these labels, as in team=shop.")
	fl.StringVar(&c.waves, "waves", "1,10%,50%,100%", "Waves: counts of objects, or percent of all that have had their turn.")
	fl.DurationVar(&c.after, "after", rollout.DefaultAfter, "How long the objects of a wave have to become healthy.")
	fl.Int32Var(&c.maxUnhealthy, "max-unhealthy", 0, "How many objects of a wave may be not healthy then.")
	fl.BoolVar(&c.manual, "manual", false, "Each wave after the first waits for kubectl kausality rollout resume.")
	fl.BoolVarP(&c.yes, "yes", "y", false, "Do not ask for confirmation.")
	return cmd
}

// spec of the flags, without its cause.
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

// causeOf the pending changes with a key.
func causeOf(d *v1alpha1.Drift) (v1alpha1.RolloutCause, error) {
	if isExternalDrift(d) {
		return v1alpha1.RolloutCause{External: true}, nil
	}
	var out v1alpha1.RolloutCause
	fields := map[v1alpha1.CauseKind]*string{
		v1alpha1.CauseComposition: &out.CompositionRevision, v1alpha1.CauseFunction: &out.FunctionRevision, v1alpha1.CauseImage: &out.Image,
		v1alpha1.CauseController: &out.Controller, v1alpha1.CauseUser: &out.User,
	}
	for _, one := range d.Spec.Causes {
		f := fields[one.Kind]
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

func (c *rolloutStartCommand) run(cmd *cobra.Command, args []string) error {
	if c.cause == "" {
		return usageError{errors.New("--cause is required; kubectl kausality pending --summary lists the keys")}
	}
	spec, err := c.spec()
	if err != nil {
		return err
	}
	list, s, err := driftFinder{c.session}.open(cmd, nil, &driftFilter{cause: c.cause, selector: c.selector, everywhere: c.cluster})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("nothing waits for approval %s", s.where)
	}
	if spec.Cause, err = causeOf(&list[0]); err != nil {
		return err
	}
	ns := ""
	if !c.cluster {
		if ns, err = c.namespace(); err != nil {
			return err
		}
	}
	if errs := rollout.Invalid(spec, ns); len(errs) > 0 {
		return usageError{errors.New(strings.Join(errs, "; "))}
	}
	r, err := c.resource()
	if err != nil {
		return err
	}
	if err := c.create(cmd.Context(), r, args[0], ns, spec); err != nil {
		return err
	}
	o, err := c.planned(cmd.Context(), r, args[0])
	if err != nil {
		return err
	}
	c.printWaves(c.ErrOut, o)
	if err := c.confirm(fmt.Sprintf("Approve %s of %s?", plural(int(o.Status.Plan.Differences), "change"), plural(int(o.Status.Plan.Objects), "object")),
		c.yes, ""); err != nil {
		fmt.Fprintf(c.ErrOut, "Nothing passes until it is approved: kubectl kausality rollout approve%s\n", c.named(o.Name))
		return err
	}
	if err := c.vote(cmd.Context(), r, o, string(v1alpha1.ApprovalOnce)); err != nil {
		return err
	}
	return c.follow(cmd.Context(), r, o, c.wait)
}

func (c *rolloutStartCommand) create(ctx context.Context, r dynamic.ResourceInterface, name, namespace string, spec *v1alpha1.RolloutSpec) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Rollout{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: c.kind()},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: *spec})
	if err != nil {
		return fmt.Errorf("cannot encode the %s: %w", c.kind(), err)
	}
	delete(content, "status")
	if _, err := r.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{FieldManager: "kubectl-kausality"}); err != nil {
		return fmt.Errorf("cannot make the %s: %w", c.kind(), err)
	}
	return nil
}

// planWithin is how long the plan of a new Rollout may take.
const planWithin = 30 * time.Second

// planned Rollout, once its plan is made.
func (c *rolloutStartCommand) planned(ctx context.Context, r dynamic.ResourceInterface, name string) (o *v1alpha1.Rollout, err error) {
	w := waitOptions{timeout: planWithin}
	err = w.until(ctx, func(ctx context.Context) (string, error) {
		if o, err = c.get(ctx, r, name); err != nil {
			return "", err
		}
		switch {
		case o.Status.Phase == v1alpha1.RolloutInvalid:
			return "", fmt.Errorf("%s %s: %s", c.kind(), name, o.Status.Message)
		case o.Status.Plan == nil:
			return "its plan is not made yet; does the webhook of Kausality run?", nil
		case o.Status.Plan.Objects == 0:
			return "nothing waits for this cause any more", nil
		}
		return "", nil
	})
	return o, err
}

// vote for the plan of a Rollout that was shown: of another plan by now, it is none.
func (c *rolloutCommand) vote(ctx context.Context, r dynamic.ResourceInterface, o *v1alpha1.Rollout, value string) error {
	body := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, o.UID, v1alpha1.AnnotationKeyApprovePrefix+o.Status.Plan.ID, value)
	_, err := r.Patch(ctx, o.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubectl-kausality"})
	if err != nil {
		return fmt.Errorf("cannot approve %s %s: %w", c.kind(), o.Name, err)
	}
	return nil
}

// waveText describes a wave of a spec.
func waveText(w v1alpha1.RolloutWave) string {
	switch {
	case w.Count != nil:
		return strconv.Itoa(int(*w.Count))
	case w.Percent != nil:
		return "to " + strconv.Itoa(int(*w.Percent)) + "%"
	}
	return "by labels"
}

// printWaves of a Rollout, with a bar each.
func (c *rolloutCommand) printWaves(out io.Writer, o *v1alpha1.Rollout) {
	w := printers.GetNewTabWriter(out)
	fmt.Fprintln(w, "WAVE\tOBJECTS\tWAITING\tLET THROUGH\tHEALTHY\tUNHEALTHY\tLEFT OUT\t")
	for i, n := range o.Status.Waves {
		mark := " "
		if int(o.Status.Wave) == i+1 {
			mark = "*"
		}
		fmt.Fprintf(w, "%s%d (%s)\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", mark, i+1, waveText(o.Spec.Waves[min(i, len(o.Spec.Waves)-1)]), n.Total, n.Waiting,
			n.Approved, n.Done,
			n.Unhealthy, n.LeftOut, bar(n))
	}
	_ = w.Flush() // an error of the output shows with the next line
}

// barWidth in characters.
const barWidth = 20

// bar of a wave: healthy, let through, unhealthy, waiting.
func bar(w v1alpha1.RolloutWaveStatus) string {
	if w.Total == 0 {
		return ""
	}
	var out strings.Builder
	drawn, sum := 0, 0
	for _, part := range []struct {
		n    int32
		mark string
	}{{w.Done, "#"}, {w.Approved, "+"}, {w.Unhealthy, "!"}, {w.LeftOut, "-"}, {w.Waiting, "."}} {
		sum += int(part.n)
		for ; drawn < sum*barWidth/int(w.Total); drawn++ {
			out.WriteString(part.mark)
		}
	}
	return out.String()
}

// print a Rollout as it is.
func (c *rolloutCommand) print(out io.Writer, o *v1alpha1.Rollout) {
	fmt.Fprintf(out, "%s %s: %s", c.kind(), o.Name, o.Status.Phase)
	if o.Status.Message != "" {
		fmt.Fprintf(out, ", %s", o.Status.Message)
	}
	fmt.Fprintln(out)
	if len(o.Status.Waves) > 0 {
		c.printWaves(out, o)
	}
	for _, u := range o.Status.Unhealthy {
		fmt.Fprintf(out, "  not healthy: %s: %s\n", u.Object, u.Reason)
	}
	for _, u := range o.Status.LeftOut {
		fmt.Fprintf(out, "  left out: %s: %s\n", u.Object, u.Reason)
	}
	switch o.Status.Phase {
	case v1alpha1.RolloutPending:
		if o.Status.Lacks != "" {
			fmt.Fprintf(out, "To approve it: kubectl kausality rollout approve%s\n", c.named(o.Name))
		}
	case v1alpha1.RolloutStopped, v1alpha1.RolloutPaused:
		fmt.Fprintf(out, "To go on: kubectl kausality rollout resume%s\n", c.named(o.Name))
	case v1alpha1.RolloutInvalid, v1alpha1.RolloutProgressing, v1alpha1.RolloutCompleted:
	}
}

// ended reports whether nothing more happens by itself.
func ended(o *v1alpha1.Rollout) bool {
	switch o.Status.Phase {
	case v1alpha1.RolloutCompleted, v1alpha1.RolloutStopped, v1alpha1.RolloutInvalid:
		return true
	case v1alpha1.RolloutPending, v1alpha1.RolloutPaused, v1alpha1.RolloutProgressing:
	}
	return false
}

// follow a Rollout: print it once, or until it has ended. On a terminal the lines are drawn over.
func (c *rolloutCommand) follow(ctx context.Context, r dynamic.ResourceInterface, o *v1alpha1.Rollout, live bool) error {
	name, last := o.Name, ""
	over := false
	if f, ok := c.Out.(*os.File); ok {
		over = term.IsTerminal(int(f.Fd()))
	}
	for {
		o, err := c.get(ctx, r, name)
		if err != nil {
			return err
		}
		var text strings.Builder
		if o.Status.Phase == "" {
			fmt.Fprintf(&text, "%s %s: its plan is not made yet\n", c.kind(), name)
		} else {
			c.print(&text, o)
		}
		if text.String() != last {
			if over && last != "" { // up by as many lines, and erase them
				fmt.Fprintf(c.Out, "\x1b[%dA\x1b[J", strings.Count(last, "\n"))
			}
			last = text.String()
			if _, err := io.WriteString(c.Out, last); err != nil {
				return err
			}
		}
		switch {
		case o.Status.Phase == v1alpha1.RolloutStopped && live:
			return fmt.Errorf("the rollout stopped: %s", o.Status.Message)
		case !live || ended(o):
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func newRolloutStatusCommand(s *session) *cobra.Command {
	c, watch, f := &rolloutCommand{session: s}, false, format{}
	cmd := &cobra.Command{Use: "status NAME", Short: "Show how far a Rollout is.", Args: oneName,
		Example: `  kubectl kausality rollout status pg16

  # Until it has ended
  kubectl kausality rollout status pg16 --watch`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.resource()
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if f.value != formatTable {
				return c.printAs(cmd.Context(), r, args[0], f)
			}
			o := &v1alpha1.Rollout{}
			o.Name = args[0]
			return c.follow(cmd.Context(), r, o, watch)
		}}
	c.add(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Until it has ended.")
	f.add(cmd, formatJSON, formatYAML)
	return cmd
}

// printAs prints a Rollout in a structured format.
func (c *rolloutCommand) printAs(ctx context.Context, r dynamic.ResourceInterface, name string, f format) error {
	o, err := c.get(ctx, r, name)
	if err != nil {
		return err
	}
	_, err = f.structured(c.Out, o)
	return err
}

func newRolloutApproveCommand(s *session) *cobra.Command {
	c, yes, withdraw, breakGlass := &rolloutCommand{session: s}, false, false, ""
	cmd := &cobra.Command{Use: "approve NAME", Short: "Approve a Rollout that others have made.", Args: oneName,
		Long:    "Approves the plan of a Rollout as it is shown. Where another plan takes its place, that one is to be approved again.",
		Example: `  kubectl kausality rollout approve pg16`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.resource()
			if err != nil {
				return err
			}
			o, err := c.get(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			if o.Status.Plan == nil {
				return fmt.Errorf("the plan of %s %s is not made yet", c.kind(), o.Name)
			}
			value, question := string(v1alpha1.ApprovalOnce), "Approve %s of %s?"
			switch {
			case withdraw && breakGlass != "":
				return usageError{errors.New("--withdraw and --break-glass exclude each other; give one")}
			case withdraw:
				value, question = "withdraw", "Withdraw your approval of %s of %s?"
			case breakGlass != "":
				value = "break-glass: " + breakGlass
			}
			c.print(c.ErrOut, o)
			if err := c.confirm(fmt.Sprintf(question, plural(int(o.Status.Plan.Differences), "change"), plural(int(o.Status.Plan.Objects), "object")), yes,
				""); err != nil {
				return err
			}
			if err := c.vote(cmd.Context(), r, o, value); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Out, "%s voted; to follow it: kubectl kausality rollout status%s --watch\n", c.view.green("done"), c.named(o.Name))
			return err
		}}
	c.add(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask for confirmation.")
	cmd.Flags().BoolVar(&withdraw, "withdraw", false, "Take your own approval back.")
	cmd.Flags().StringVar(&breakGlass, "break-glass", "", "Approve alone, for this reason, where an ApprovalRule lets you.")
	return cmd
}

func newRolloutStopCommand(s *session) *cobra.Command {
	c := &rolloutCommand{session: s}
	cmd := &cobra.Command{Use: "stop NAME", Short: "Let nothing more of a Rollout pass.", Args: oneName,
		Example: `  kubectl kausality rollout stop pg16`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.resource()
			if err != nil {
				return err
			}
			_, err = r.Patch(cmd.Context(), args[0], types.MergePatchType, []byte(`{"spec":{"stop":true}}`),
				metav1.PatchOptions{FieldManager: "kubectl-kausality"})
			if err != nil {
				return fmt.Errorf("cannot stop %s %s: %w", c.kind(), args[0], err)
			}
			_, err = fmt.Fprintf(c.Out, "%s %s: what was let through goes on, nothing more passes until: kubectl kausality rollout resume%s\n",
				c.view.green("stopped"), args[0], c.named(args[0]))
			return err
		}}
	c.add(cmd)
	return cmd
}

func newRolloutResumeCommand(s *session) *cobra.Command {
	c, yes := &rolloutCommand{session: s}, false
	cmd := &cobra.Command{Use: "resume NAME", Short: "Go on with a Rollout that is stopped or paused.", Args: oneName,
		Long: "Goes on with a Rollout that is stopped, or paused before its next wave. Where objects of a wave are not healthy, the next wave begins " +
			"nevertheless.",
		Example: `  kubectl kausality rollout resume pg16`,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := c.resource()
			if err != nil {
				return err
			}
			o, err := c.get(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			next := o.Status.Wave + 1
			switch {
			case o.Spec.Stop:
				next = o.Spec.Proceed
			case o.Status.Phase != v1alpha1.RolloutStopped && o.Status.Phase != v1alpha1.RolloutPaused:
				return fmt.Errorf("%s %s is %s; there is nothing to resume", c.kind(), o.Name, o.Status.Phase)
			}
			c.print(c.ErrOut, o)
			if err := c.confirm("Go on?", yes, ""); err != nil {
				return err
			}
			if err := c.patch(cmd.Context(), r, o, `"spec":{"stop":false,"proceed":%d}`, next); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Out, "%s %s\n", c.view.green("resumed"), o.Name)
			return err
		}}
	c.add(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "Do not ask for confirmation.")
	return cmd
}
