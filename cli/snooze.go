package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

// snoozeCommand silences notifications about what is below parents, or ends that.
type snoozeCommand struct {
	*session
	arguments
	writeOptions
	changeOptions
	endOptions
	message string
	off     bool
}

// newSnoozeCommand returns `kubectl kausality snooze`: it writes the annotation snooze.
func newSnoozeCommand(s *session) *cobra.Command {
	c := &snoozeCommand{session: s}
	cmd := &cobra.Command{
		Use:   "snooze TYPE/NAME... | TYPE -l LABELS | TYPE --all | --cause KEY --for PERIOD",
		Short: "Silence notifications about changes below an object; no decision changes.",
		Example: `  kubectl kausality snooze xdatabase/orders --for 24h -m "known, fixed on Monday"
  kubectl kausality snooze xdatabase/orders --off

  # The parents of all changes of one cause: whatever happens below them
  kubectl kausality snooze -A --cause xdatabases-7f3 --for 3d --reason "SHOP-17: after the sale"`,
		ValidArgsFunction: completer{s}.objects,
		RunE:              runs(c),
	}
	c.writeOptions.add(cmd)
	c.changeOptions.add(cmd, allOfType)
	fl := cmd.Flags()
	c.endOptions.add(fl, "For how long, as in 1d, 24h or 90m.")
	fl.StringVarP(&c.message, "message", "m", "", "Reason, for other users.")
	fl.StringVar(&c.message, "reason", "", "The same as --message.")
	fl.BoolVar(&c.off, "off", false, "Remove a snooze.")
	return cmd
}

// validate validates the end of the snooze: one is required, unless it is over now.
func (c *snoozeCommand) validate() error {
	if c.off == (c.period != 0 || c.until != "") {
		return usageError{errors.New("give one of --for, --until and --off")}
	}
	return c.endOptions.check("snooze", c.view.now())
}

// run snoozes what is selected, or ends snoozes with --off (KR-05-28).
func (c *snoozeCommand) run(ctx context.Context) error {
	targets, err := c.targets(ctx)
	if err != nil {
		return err
	}
	user, err := c.user(ctx)
	if err != nil {
		return err
	}
	d, s, until := c.changeOptions.decision("End the snoozes of %s?"), v1alpha1.Snooze{}, ""
	if !c.off {
		s = v1alpha1.Snooze{Expiry: *c.expires, User: user.Name, Message: c.message}
		until = c.expires.Format(time.RFC3339)
		d.question = "Snooze %s until " + until + "?"
	}
	for _, t := range targets {
		if c.off {
			d.list = append(d.list, endSnooze(t)...)
			continue
		}
		d.list = append(d.list, annotationWrite{
			on: t, key: v1alpha1.AnnotationKeySnooze, edit: annotate.Snooze(s),
			next: "No notifications about refusals below it until " + until + ".",
		})
	}
	return writer{c.session, &c.writeOptions}.decide(ctx, d)
}

// targets returns the objects that are named or selected, or the parents of the changes of a
// cause.
func (c *snoozeCommand) targets(ctx context.Context) ([]target, error) {
	if c.cause == "" {
		return c.session.selected(c.cmd, c.args, &c.selectOptions)
	}
	list, _, err := driftFinder{c.session}.selected(c.cmd, c.args, &c.changeOptions)
	if err != nil {
		return nil, err
	}
	var out []target
	have := map[v1alpha1.ObjectReference]bool{}
	for i := range list {
		p := list[i].Spec.Parent
		p.Generation = 0 // of the same object
		if have[p] {
			continue
		}
		have[p] = true
		t, err := c.target(identity.Ref(p))
		if err != nil {
			return nil, err
		}
		if c.off { // which forms of a snooze it has is read
			u, err := t.client.Get(ctx, t.GetName(), metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", t.describe(), err)
			}
			t.Unstructured = u
		}
		out = append(out, t)
	}
	return out, nil
}

// endSnooze removes both forms of a snooze where the object has them (KR-02-08).
// Where it has none, the newer is removed, which reports that it does not exist.
func endSnooze(t target) []annotationWrite {
	var out []annotationWrite
	for _, key := range []string{v1alpha1.AnnotationKeyLegacySnooze, v1alpha1.AnnotationKeySnooze} {
		if _, ok := t.GetAnnotations()[key]; ok || key == v1alpha1.AnnotationKeySnooze && len(out) == 0 {
			out = append(out, annotationWrite{on: t, key: key, edit: annotate.Remove, isRemoval: true, followsPrevious: len(out) > 0})
		}
	}
	return out
}
