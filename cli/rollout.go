package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// rolloutCommand has what the commands about one Rollout share.
type rolloutCommand struct {
	*session
	arguments
	format format
	// cluster: it is a ClusterRollout.
	cluster bool
	// rollouts are where it is stored, in its namespace; that is empty for a ClusterRollout.
	rollouts dynamic.ResourceInterface
	in       string
}

// newRolloutCommand returns `kubectl kausality rollout`.
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

// add adds the flag that all have.
func (c *rolloutCommand) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.cluster, "cluster", false, "It is a ClusterRollout, of all namespaces.")
}

// addWrite adds the flags of a command that writes a Rollout.
func (c *rolloutCommand) addWrite(cmd *cobra.Command) {
	c.add(cmd)
	c.format.add(cmd, formatName, formatJSON, formatYAML)
}

// asPlugin is how the plugin writes Rollouts.
var asPlugin = metav1.PatchOptions{FieldManager: annotate.FieldManager}

// oneName reports an error unless the name of a Rollout is the only argument.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return usageError{fmt.Errorf("give one name, as in: %s pg16", cmd.CommandPath())}
}

// kind returns the kind of the Rollout.
func (c *rolloutCommand) kind() string {
	if c.cluster {
		return v1alpha1.KindClusterRollout
	}
	return v1alpha1.KindRollout
}

// connect connects to where the Rollout is stored.
func (c *rolloutCommand) connect() error {
	conn, err := c.connection()
	if err != nil {
		return err
	}
	c.rollouts = conn.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceClusterRollouts))
	if !c.cluster {
		c.in = conn.namespace
		c.rollouts = conn.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceRollouts)).Namespace(c.in)
	}
	return nil
}

// name returns the name of the Rollout.
func (c *rolloutCommand) name() string { return c.args[0] }

// named returns the arguments that name the Rollout in a command line, with a space before them.
func (c *rolloutCommand) named() string {
	switch {
	case c.cluster:
		return " " + c.name() + " --cluster"
	case c.in != metav1.NamespaceDefault:
		return " " + c.name() + " -n " + c.in
	}
	return " " + c.name()
}

// get gets the Rollout: both kinds have the same content.
func (c *rolloutCommand) get(ctx context.Context) (*v1alpha1.Rollout, error) {
	u, err := c.rollouts.Get(ctx, c.name(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s %s: %w", c.kind(), c.name(), err)
	}
	out := &v1alpha1.Rollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, fmt.Errorf("cannot decode %s %s: %w", c.kind(), c.name(), err)
	}
	return out, nil
}

// patch patches the Rollout; verb describes it in the error.
func (c *rolloutCommand) patch(ctx context.Context, verb, body string) (*unstructured.Unstructured, error) {
	out, err := c.rollouts.Patch(ctx, c.name(), types.MergePatchType, []byte(body), asPlugin)
	if err != nil {
		return nil, fmt.Errorf("cannot %s %s %s: %w", verb, c.kind(), c.name(), err)
	}
	return out, nil
}

// vote votes for the plan of a Rollout that was shown: a vote for an earlier plan does not count.
func (c *rolloutCommand) vote(ctx context.Context, o *v1alpha1.Rollout, value string) (*unstructured.Unstructured, error) {
	return c.patch(ctx, "approve", fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, o.UID, annotate.ApproveKey(o.Status.Plan.ID), value))
}

// confirmPlan prompts for what the plan of a Rollout lets through; question has verbs for changes and objects.
func (c *rolloutCommand) confirmPlan(question string, o *v1alpha1.Rollout, yes bool) error {
	changes, objects := int(o.Status.Plan.Differences), int(o.Status.Plan.Objects)
	return c.confirm(fmt.Sprintf(question, channel.Plural(changes, "change"), channel.Plural(objects, "object")), yes, "")
}

// written reports the Rollout that a command wrote, in the format of -o; as a line by default.
func (c *rolloutCommand) written(u *unstructured.Unstructured, line string, args ...any) error {
	u.SetManagedFields(nil) // as kubectl prints objects
	if done, err := c.format.structured(c.Out, u.Object); done {
		return err
	}
	if c.format.value == formatName {
		line, args = "%s.%s/%s\n", []any{strings.ToLower(c.kind()), v1alpha1.Group, u.GetName()}
	}
	_, err := fmt.Fprintf(c.Out, line, args...)
	return err
}

// rolloutApproveCommand votes for a Rollout.
type rolloutApproveCommand struct {
	rolloutCommand
	yes, withdraw bool
	breakGlass    string
}

func newRolloutApproveCommand(s *session) *cobra.Command {
	c := &rolloutApproveCommand{rolloutCommand: rolloutCommand{session: s}}
	cmd := &cobra.Command{Use: "approve NAME", Short: "Approve a Rollout that others have made.", Args: oneName,
		Long:    "Approves the plan of a Rollout as it is shown. Where another plan takes its place, that one is to be approved again.",
		Example: `  kubectl kausality rollout approve pg16`,
		RunE:    runs(c)}
	c.addWrite(cmd)
	addYes(cmd, &c.yes)
	cmd.Flags().BoolVar(&c.withdraw, "withdraw", false, "Take your own approval back.")
	cmd.Flags().StringVar(&c.breakGlass, "break-glass", "", "Approve alone, for this reason, where an ApprovalRule lets you.")
	return cmd
}

// validate validates the flags, which exclude each other.
func (c *rolloutApproveCommand) validate() error {
	if c.withdraw && c.breakGlass != "" {
		return usageError{errors.New("--withdraw and --break-glass exclude each other; give one")}
	}
	return nil
}

// run shows the plan, and votes for it once that is confirmed.
func (c *rolloutApproveCommand) run(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	o, err := c.get(ctx)
	if err != nil {
		return err
	}
	if o.Status.Plan == nil {
		return fmt.Errorf("the plan of %s %s is not made yet", c.kind(), o.Name)
	}
	value, question := string(v1alpha1.ApprovalOnce), "Approve %s of %s?"
	switch {
	case c.withdraw:
		value, question = "withdraw", "Withdraw your approval of %s of %s?"
	case c.breakGlass != "":
		value = "break-glass: " + c.breakGlass
	}
	c.print(c.ErrOut, o)
	if err := c.confirmPlan(question, o, c.yes); err != nil {
		return err
	}
	voted, err := c.vote(ctx, o, value)
	if err != nil {
		return err
	}
	return c.written(voted, "%s voted; to follow it: kubectl kausality rollout status%s --watch\n", c.view.green("done"), c.named())
}

// rolloutStopCommand stops a Rollout.
type rolloutStopCommand struct{ rolloutCommand }

func newRolloutStopCommand(s *session) *cobra.Command {
	c := &rolloutStopCommand{rolloutCommand{session: s}}
	cmd := &cobra.Command{Use: "stop NAME", Short: "Let nothing more of a Rollout pass.", Args: oneName,
		Example: `  kubectl kausality rollout stop pg16`,
		RunE:    runs(c)}
	c.addWrite(cmd)
	return cmd
}

func (c *rolloutStopCommand) run(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	u, err := c.patch(ctx, "stop", `{"spec":{"stop":true}}`)
	if err != nil {
		return err
	}
	return c.written(u, "%s %s: what was let through goes on, nothing more passes until: kubectl kausality rollout resume%s\n",
		c.view.green("stopped"), c.name(), c.named())
}

// rolloutResumeCommand goes on with a Rollout.
type rolloutResumeCommand struct {
	rolloutCommand
	yes bool
}

func newRolloutResumeCommand(s *session) *cobra.Command {
	c := &rolloutResumeCommand{rolloutCommand: rolloutCommand{session: s}}
	cmd := &cobra.Command{Use: "resume NAME", Short: "Go on with a Rollout that is stopped or paused.", Args: oneName,
		Long: "Goes on with a Rollout that is stopped, or paused before its next wave. Where objects of a wave are not healthy, the next wave begins " +
			"nevertheless.",
		Example: `  kubectl kausality rollout resume pg16`,
		RunE:    runs(c)}
	c.addWrite(cmd)
	addYes(cmd, &c.yes)
	return cmd
}

// run shows the Rollout as it is, and goes on with it once that is confirmed.
func (c *rolloutResumeCommand) run(ctx context.Context) error {
	if err := c.connect(); err != nil {
		return err
	}
	o, err := c.get(ctx)
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
	if err := c.confirm("Go on?", c.yes, ""); err != nil {
		return err
	}
	// As it was read: where it changed since, the error is a conflict.
	u, err := c.patch(ctx, "change", fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"stop":false,"proceed":%d}}`, o.ResourceVersion, next))
	if err != nil {
		return err
	}
	return c.written(u, "%s %s\n", c.view.green("resumed"), o.Name)
}
