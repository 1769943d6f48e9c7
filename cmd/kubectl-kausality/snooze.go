package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/annotate"
)

type snoozeOptions struct {
	decisionOptions
	whichOptions
	period  time.Duration
	until   string
	message string
	off     bool
}

func (c *cli) snoozeCommand() *cobra.Command {
	o := &snoozeOptions{}
	cmd := &cobra.Command{
		Use: "snooze TYPE/NAME... | TYPE -l LABELS | TYPE --all --for PERIOD", Short: "Silence notifications about what is below an object; no decision changes.",
		Example: `  kubectl kausality snooze xdatabase/orders --for 24h -m "known, fixed on Monday"
  kubectl kausality snooze xdatabase/orders --off`,
		ValidArgsFunction: c.completeSeveral,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.snooze(cmd, args, o) },
	}
	o.decisionOptions.add(cmd)
	o.whichOptions.add(cmd, allOfType)
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
	targets, err := c.which(cmd, args, &o.whichOptions)
	if err != nil {
		return err
	}
	i, err := c.inspector(cmd.Context())
	if err != nil {
		return err
	}
	d := o.whichOptions.decision("Snooze %s until " + until.Format(time.RFC3339) + "?")
	if o.off {
		d.question = "End the snoozes of %s?"
	}
	s := v1alpha1.Snooze{Expiry: metav1.NewTime(until), User: i.User.Name, Message: o.message}
	for _, t := range targets {
		if o.off {
			d.list = append(d.list, awake(t)...)
			continue
		}
		d.list = append(d.list, intended{
			on: t, key: v1alpha1.AnnotationKeySnooze, edit: annotate.Snooze(s),
			next: "Nobody is notified of what is refused below it until " + until.Format(time.RFC3339) + ".",
		})
	}
	return c.decide(cmd.Context(), &o.decisionOptions, d)
}

// awake takes away both forms of a snooze, those that are there; the newer is
// looked for where there is none.
func awake(t target) []intended {
	var out []intended
	for _, key := range []string{v1alpha1.AnnotationKeyLegacySnooze, v1alpha1.AnnotationKeySnooze} {
		if _, ok := t.GetAnnotations()[key]; ok || key == v1alpha1.AnnotationKeySnooze && len(out) == 0 {
			out = append(out, intended{on: t, key: key, edit: annotate.Remove, takeBack: true, also: len(out) > 0})
		}
	}
	return out
}
