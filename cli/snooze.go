package cli

import (
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
	writeOptions
	changeOptions
	period  time.Duration
	until   string
	message string
	off     bool
}

// newSnoozeCommand is `kubectl kausality snooze`: it writes the annotation snooze.
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
		RunE:              c.run,
	}
	c.writeOptions.add(cmd)
	c.changeOptions.add(cmd, allOfType)
	fl := cmd.Flags()
	fl.Var((*period)(&c.period), "for", "For how long, as in 1d, 24h or 90m.")
	fl.StringVar(&c.until, "until", "", "Until when, as in 2026-01-05T09:30:00Z.")
	fl.StringVarP(&c.message, "message", "m", "", "Reason, for other users.")
	fl.StringVar(&c.message, "reason", "", "The same as --message.")
	fl.BoolVar(&c.off, "off", false, "Remove a snooze.")
	return cmd
}

// expiry of the snooze in whole seconds, UTC; zero for --off.
func (c *snoozeCommand) expiry(now time.Time) (time.Time, error) {
	given := 0
	for _, is := range []bool{c.period != 0, c.until != "", c.off} {
		if is {
			given++
		}
	}
	if given != 1 {
		return time.Time{}, usageError{errors.New("give one of --for, --until and --off")}
	}
	at := now.Add(c.period)
	if c.until != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, c.until); err != nil {
			return time.Time{}, usageError{fmt.Errorf("--until must be a time as in 2026-01-05T09:30:00Z, not %q", c.until)}
		}
	}
	if c.off {
		return time.Time{}, nil
	}
	if !at.After(now) {
		return time.Time{}, usageError{fmt.Errorf("the snooze would end immediately: %s is not in the future", at.UTC().Format(time.RFC3339))}
	}
	return at.UTC().Truncate(time.Second), nil
}

// run snoozes what is selected, or ends snoozes with --off (KR-05-28).
func (c *snoozeCommand) run(cmd *cobra.Command, args []string) error {
	until, err := c.expiry(c.view.now())
	if err != nil {
		return err
	}
	targets, err := c.targets(cmd, args)
	if err != nil {
		return err
	}
	user, err := c.user(cmd.Context())
	if err != nil {
		return err
	}
	d := c.changeOptions.decision("Snooze %s until " + until.Format(time.RFC3339) + "?")
	if c.off {
		d.question = "End the snoozes of %s?"
	}
	s := v1alpha1.Snooze{Expiry: metav1.NewTime(until), User: user.Name, Message: c.message}
	for _, t := range targets {
		if c.off {
			d.list = append(d.list, endSnooze(t)...)
			continue
		}
		d.list = append(d.list, annotationWrite{
			on: t, key: v1alpha1.AnnotationKeySnooze, edit: annotate.Snooze(s),
			next: "No notifications about refusals below it until " + until.Format(time.RFC3339) + ".",
		})
	}
	return writer{c.session, &c.writeOptions}.decide(cmd.Context(), d)
}

// targets are the objects that are named or selected, or the parents of the changes of a
// cause.
func (c *snoozeCommand) targets(cmd *cobra.Command, args []string) ([]target, error) {
	if c.cause == "" {
		return c.session.selected(cmd, args, &c.selectOptions)
	}
	list, _, err := driftFinder{c.session}.selected(cmd, args, &c.changeOptions)
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
			u, err := t.client.Get(cmd.Context(), t.GetName(), metav1.GetOptions{})
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
