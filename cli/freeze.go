package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/authorship"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// freezeCommand freezes parents.
type freezeCommand struct {
	*session
	arguments
	writeOptions
	selectOptions
	endOptions
	message   string
	overwrite bool
}

// newFreezeCommand returns `kubectl kausality freeze`: it writes the annotation freeze.
func newFreezeCommand(s *session) *cobra.Command {
	c := &freezeCommand{session: s}
	cmd := &cobra.Command{
		Use: "freeze TYPE/NAME... | TYPE -l LABELS | TYPE --all -m TEXT", Short: "Refuse all changes below an object until it is unfrozen.",
		Example: `  kubectl kausality freeze xdatabase/orders -m "incident 4711"

  # All objects of one team, after confirmation
  kubectl kausality freeze xdatabases -l team=shop -m "incident 4711"

  # It ends by itself
  kubectl kausality freeze xdatabase/orders --for 2h -m "release"`,
		ValidArgsFunction: completer{s}.objects,
		RunE:              runs(c),
	}
	c.writeOptions.add(cmd)
	c.selectOptions.add(cmd, allOfType)
	cmd.Flags().VarP((*sentences)(&c.message), "message", "m", "Reason, part of each refusal.")
	cmd.Flags().BoolVar(&c.overwrite, "overwrite", false, "Replace the freeze of another user.")
	c.endOptions.add(cmd.Flags(), "For how long, as in 1d, 2h or 90m; without it, until it is unfrozen.")
	return cmd
}

// validate validates the end of the freeze (KR-14-40).
func (c *freezeCommand) validate() error { return c.endOptions.check("freeze", c.view.now()) }

// run freezes what is selected, in the name of the user (KR-02-08).
func (c *freezeCommand) run(ctx context.Context) error {
	targets, err := c.selected(c.cmd, c.args, &c.selectOptions)
	if err != nil {
		return err
	}
	i, err := c.inspector(ctx)
	if err != nil {
		return err
	}
	at := metav1.NewTime(c.view.now().UTC().Truncate(time.Second))
	f := v1alpha1.Freeze{User: i.User.Name, Message: c.message, At: &at, Expiry: c.expires}
	d := c.selectOptions.decision("Freeze %s?")
	for _, t := range targets {
		d.list = append(d.list, annotationWrite{
			on: t, key: v1alpha1.AnnotationKeyFreeze, edit: annotate.Freeze(f, c.overwrite), err: c.mayHaveChildren(ctx, i, t),
			next: "All changes below it are refused until: kubectl kausality unfreeze " + t.arg(),
		})
	}
	return writer{c.session, &c.writeOptions}.decide(ctx, d)
}

// mayHaveChildren refuses graphs, whose instances are no children of theirs, and managed resources: they have no children in the
// cluster that a freeze could be about.
func (c *freezeCommand) mayHaveChildren(ctx context.Context, i *inspect.Inspector, t target) error {
	if inspect.IsGraph(t.Unstructured) {
		return fmt.Errorf("%s is a graph: a freeze of it would have no effect on its instances; freeze those: kubectl kausality freeze %s --all -A -m TEXT",
			t.describe(), instancesOf(t.Unstructured))
	}
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
			hint = "; did you mean its parent? kubectl kausality freeze " + up.arg()
		}
	}
	return fmt.Errorf("%s is a managed resource without children: a freeze would have no effect%s", t.describe(), hint)
}

// instancesOf returns the instances of a graph, as a TYPE.
func instancesOf(graph *unstructured.Unstructured) string {
	kind, _, _ := unstructured.NestedString(graph.Object, "spec", "schema", "kind") // kro validates it
	group, _, _ := unstructured.NestedString(graph.Object, "spec", "schema", "group")
	return shellWord(strings.ToLower(kind) + "." + cmp.Or(group, authorship.GraphKind.Group))
}

// unfreezeCommand removes freezes.
type unfreezeCommand struct {
	*session
	arguments
	writeOptions
	selectOptions
	overwrite bool
}

// newUnfreezeCommand returns `kubectl kausality unfreeze`: it removes that annotation.
func newUnfreezeCommand(s *session) *cobra.Command {
	c := &unfreezeCommand{session: s}
	cmd := &cobra.Command{
		Use: "unfreeze TYPE/NAME... | TYPE -l LABELS | TYPE --all", Short: "Remove a freeze.",
		Example: `  kubectl kausality unfreeze xdatabase/orders

  # Also where another user froze it
  kubectl kausality unfreeze xdatabase/orders --overwrite

  # Everything that is frozen in the namespace; shows by whom and why, and asks for confirmation
  kubectl kausality unfreeze xdatabases --all`,
		ValidArgsFunction: completer{s}.objects,
		RunE:              runs(c),
	}
	c.writeOptions.add(cmd)
	c.selectOptions.add(cmd, allOfType)
	cmd.Flags().BoolVar(&c.overwrite, "overwrite", false, "Remove the freeze of another user.")
	return cmd
}

// run removes freezes, those of other users with --overwrite alone (KR-12-17). They are shown before, except
// that of a single object that is named; of another user's, the author is shown afterwards.
func (c *unfreezeCommand) run(ctx context.Context) error {
	targets, err := c.selected(c.cmd, c.args, &c.selectOptions)
	if err != nil {
		return err
	}
	user, err := c.user(ctx)
	if err != nil {
		return err
	}
	d := c.selectOptions.decision("Unfreeze %s?")
	for _, t := range targets {
		d.list = append(d.list, annotationWrite{
			on: t, key: v1alpha1.AnnotationKeyFreeze, edit: annotate.Unfreeze(user.Name, c.overwrite, c.view.now()), isRemoval: true,
			next: frozenBy(t.GetAnnotations(), user.Name, c.view.now()) + "Changes requested in the meantime are carried out now.",
		})
	}
	return writer{c.session, &c.writeOptions}.decide(ctx, d)
}

// frozenBy returns a sentence with author, time and message of a freeze, and a space;
// empty where there is none, or where it is the user's own (KR-12-17).
func frozenBy(annotations map[string]string, user string, now time.Time) string {
	f := approval.ParseAt(annotations, now).Freeze
	if f == nil || f.User == user && user != "" {
		return ""
	}
	return "It was frozen" + annotate.FrozenBy(*f) + ". "
}
