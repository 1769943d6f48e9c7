package view

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// Confirmation of an action before it is taken.
type Confirmation struct {
	Action channel.Action
	Verb   string
	// About is what it is about.
	About string
	// Effects are what it will do, in sentences; Writes are the annotations that it writes.
	Effects []string
	Writes  []string
	// Shown is the fingerprint of what is shown.
	Shown string
	// Change that it is about; nil for the freeze of an object.
	Change *Change
	// Reason and Until are what the user has entered.
	Reason, Until string
	Snoozes       []Choice
	// Exception is what else is shown of an exception; nil for other actions.
	*Exception
	// Problem is why it was not taken; empty for none. Status is its class, as HTTP has them; zero for none.
	Problem, Why string
	Status       int
}

// Choice among several.
type Choice struct {
	Name, Text string
	Checked    bool
}

// Form is what the user has entered, of a Confirmation with the fingerprint Shown.
type Form struct {
	Action               channel.Action
	Shown, Reason, Until string
	// Scope and At are of an exception: what it is about, and Confirmation.At as it was shown.
	Scope, At string
	// Opened: the user has confirmed what it deletes or replaces.
	Opened bool
}

// NeedsReason reports whether a reason has to be entered.
func (c *Confirmation) NeedsReason() bool {
	return c.Action == channel.ActionReject || c.Action == channel.ActionFreeze
}

// NeedsTime reports whether a time has to be chosen.
func (c *Confirmation) NeedsTime() bool {
	return c.Action == channel.ActionSnooze || c.Action == channel.ActionException
}

// Destroys reports whether it has to be confirmed that something is deleted or replaced.
func (c *Confirmation) Destroys() bool {
	return c.Action == channel.ActionApprove && c.Change != nil && c.Change.Destroys
}

// problem why it was not taken.
func (c *Confirmation) problem(status int, title, why string) {
	c.Status, c.Problem, c.Why = status, title, why
}

const (
	changedTitle = "Nothing was done: it has changed since it was shown to you"
	changedWhy   = "This is what it is now. Look at it, and decide again."
)

// snoozeTexts are what is offered.
var snoozeTexts = map[string]string{"1h": "for 1 hour", "8h": "for 8 hours", "monday": "until Monday, 08:00"}

// Confirm shows what an action about a change will do (KR-17-17).
func (v *View) Confirm(ctx context.Context, ns, id string, a channel.Action) (*Confirmation, error) {
	d, err := v.found(ctx, ns, id)
	if err != nil {
		return nil, err
	}
	if a == channel.ActionException {
		x := exceptions{v}
		return x.excepting(ctx, d, exceptionForm{scope: channel.ExceptionObject, until: channel.Snoozes[0], at: x.minute()}, &Confirmation{})
	}
	return v.confirmed(ctx, d, &Confirmation{Action: a, Until: channel.Snoozes[0]})
}

// confirmed returns an action about a change as it is stored now.
func (v *View) confirmed(ctx context.Context, d *v1alpha1.Drift, c *Confirmation) (*Confirmation, error) {
	i, ruling, err := v.look(ctx, d)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(channel.ActionsOpened(d, ruling), c.Action) {
		return nil, notOffered(d)
	}
	holder, err := v.actor.Holder(ctx, d.Spec.Parent)
	if err != nil {
		return nil, err
	}
	now := v.options.Now()
	c.Change, c.Verb, c.Shown = v.changed(ctx, i, d, ruling), channel.Label(c.Action), channel.Fingerprint(d)
	c.About = c.Change.Effect
	would := channel.Click{Action: c.Action, Shown: c.Shown, Reason: cmp.Or(c.Reason, "…"), Opened: true, At: now}
	if would.Until, err = channel.SnoozeUntil(cmp.Or(c.Until, channel.Snoozes[0]), now); err != nil {
		would.Until = now.Add(time.Hour) // another one is to be chosen
	}
	do, _ := channel.Decide(would, d, holder, v.options.User)
	c.Writes = lists.Map(do.Writes, func(w channel.Write) string { return c.written(w, do.On, holder) })
	c.Effects = effects(c, d, ruling, do)
	if c.Snoozes, err = snoozes(c.Until, now); err != nil {
		return nil, err
	}
	return c, nil
}

// written describes an annotation that a decision writes, with its value where that is known.
func (c *Confirmation) written(w channel.Write, on v1alpha1.ObjectReference, annotations map[string]string) string {
	what := "annotation " + w.Key + " of " + channel.Describe(on)
	next, err := w.Edit(annotations)
	switch {
	case err != nil: // which its writer reports
		return what
	case next == nil:
		return what + ", which is removed"
	}
	what += ": " + channel.Clip(*next)
	switch {
	case c.NeedsReason() && c.Reason == "":
		what += ", with the reason that you enter"
	case c.NeedsTime():
		what += ", with the time that you choose"
	}
	return what
}

// snoozes returns the times that are offered, one of them checked.
func snoozes(checked string, now time.Time) (out []Choice, err error) {
	for _, name := range channel.Snoozes {
		until, err := channel.SnoozeUntil(name, now)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%s (%s)", snoozeTexts[name], until.UTC().Format(time.RFC3339))
		out = append(out, Choice{Name: name, Text: text, Checked: name == checked})
	}
	return out, nil
}

// effects returns the effects of an action about a change, in sentences.
func effects(c *Confirmation, d *v1alpha1.Drift, ruling channel.Ruling, do channel.Decision) (out []string) {
	parent, child := channel.Describe(d.Spec.Parent), channel.Describe(d.Spec.Child)
	switch c.Action {
	case channel.ActionApprove:
		out = append(out, "Exactly the difference below may pass, once. Another one of the same object is held again.")
		if channel.IsExternalDrift(d) {
			out = append(out, "The provider then overwrites what was changed in the external system.")
		}
		if d.Status.Lacks != "" {
			out = append(out, "It is your vote. Missing so far: "+d.Status.Lacks+".")
		}
		if ruling.Frozen != nil {
			out = append(out, "It has an effect once the freeze ends: "+ruling.Frozen.Why()+".")
		}
	case channel.ActionReject:
		out = append(out, "Unrequested changes of "+child+" are refused, with your reason, until the rejection is withdrawn.")
	case channel.ActionWithdraw:
		if len(do.Writes) > 0 && do.Writes[0].Key == v1alpha1.AnnotationKeyRejections {
			return append(out, "All rejections of "+child+" on "+parent+" are removed. What waits can be approved again.")
		}
		out = append(out, "Your own approval is withdrawn. Those of other users are kept, and what has passed already is not undone.")
	case channel.ActionSnooze:
		out = append(out, "No notifications are sent about changes below "+parent+" until then. No decision changes.")
	default:
	}
	return out
}

// notOffered returns the state of an action that is not offered for a change.
func notOffered(d *v1alpha1.Drift) error {
	if !channel.Open(d) {
		return &State{Status: http.StatusConflict, Title: "It is over", Text: "Nothing was done. " + d.Status.Resolution}
	}
	return &State{Status: http.StatusConflict, Title: "That is not possible for this change",
		Text: "Nothing was done. Open the change: it shows what may be done about it."}
}

// Decide takes an action that was confirmed, about what was shown and nothing else (KR-17-03, KR-17-17). It returns what was done, or what is to be
// confirmed in its place.
func (v *View) Decide(ctx context.Context, ns, id string, f Form) (done string, again *Confirmation, err error) {
	d, err := v.found(ctx, ns, id)
	if err != nil {
		return "", nil, v.options.kept(err)
	}
	if f.Action == channel.ActionException {
		return exceptions{v}.except(ctx, d, f)
	}
	c := &Confirmation{Action: f.Action, Reason: Entered(f.Reason), Until: f.Until}
	click := channel.Click{Action: c.Action, Shown: f.Shown, Reason: c.Reason, Opened: f.Opened, At: v.options.Now()}
	if c.Action == channel.ActionSnooze {
		if click.Until, err = channel.SnoozeUntil(c.Until, click.At); err != nil {
			c.problem(http.StatusUnprocessableEntity, "Nothing was done", "Choose until when.")
			again, err = v.confirmed(ctx, d, c)
			return "", again, err
		}
	}
	holder, err := v.actor.Holder(ctx, d.Spec.Parent)
	if err != nil {
		return "", nil, v.options.kept(err)
	}
	do, refused := channel.Decide(click, d, holder, v.options.User)
	switch {
	case refused == channel.RefusedNotOffered && channel.Destroys(d) && !click.Opened:
		c.problem(http.StatusUnprocessableEntity, "Nothing was done", "Confirm that it deletes or replaces something.")
	case refused == channel.RefusedChanged:
		c.problem(http.StatusConflict, changedTitle, changedWhy)
	case refused == channel.RefusedIncomplete:
		c.problem(http.StatusUnprocessableEntity, "Nothing was done", "Enter a reason.")
	case refused != "":
		return "", nil, notOffered(d)
	}
	if refused != "" {
		again, err = v.confirmed(ctx, d, c)
		return "", again, err
	}
	outcome, err := v.actor.Write(ctx, d, do)
	v.forget()
	if err != nil {
		return v.unwritten(ctx, d, c, err)
	}
	return strings.TrimSpace(doneTexts[c.Action] + " " + outcome), nil, nil
}

// unwritten returns an action that the cluster did not take: it is confirmed again, or else what was entered is kept.
func (v *View) unwritten(ctx context.Context, d *v1alpha1.Drift, c *Confirmation, err error) (string, *Confirmation, error) {
	state := v.options.notWritten(err)
	state.Kept = true
	c.problem(state.Status, state.Title, state.Text)
	if again, failed := v.confirmed(ctx, d, c); failed == nil {
		return "", again, nil
	}
	return "", nil, state
}

// doneTexts are what was done, as a sentence.
var doneTexts = map[channel.Action]string{
	channel.ActionApprove: "Approved.", channel.ActionReject: "Rejected.", channel.ActionWithdraw: "Withdrawn.", channel.ActionSnooze: "Snoozed.",
	channel.ActionFreeze:   "Frozen: all changes below it are refused.",
	channel.ActionUnfreeze: "Unfrozen: changes that were requested meanwhile are carried out now.",
}

// Entered text, bounded.
func Entered(s string) string {
	s = strings.TrimSpace(channel.Printable(s))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}
