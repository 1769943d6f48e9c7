package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// confirmation of an action before it is taken.
type confirmation struct {
	Action channel.Action
	Verb   string
	// Back leads to what it is about, About describes that.
	Back, About string
	// To is where it is sent; empty for the address of the page.
	To string
	// Effects are what it will do, in sentences; Writes are the annotations that it writes.
	Effects []string
	Writes  []string
	// Shown is the fingerprint of what is shown.
	Shown string
	// Change that it is about; nil for the freeze of an object.
	Change *changeData
	// Reason and Until are what the user has entered.
	Reason, Until string
	Snoozes       []choice
	// Problem is why it was not taken; empty for none.
	Problem, Why string
}

// choice among several.
type choice struct {
	Name, Text string
	Checked    bool
}

// NeedsReason reports whether a reason has to be entered.
func (c *confirmation) NeedsReason() bool {
	return c.Action == channel.ActionReject || c.Action == channel.ActionFreeze
}

// Destroys reports whether it has to be confirmed that something is deleted or replaced.
func (c *confirmation) Destroys() bool {
	return c.Action == channel.ActionApprove && c.Change != nil && c.Change.Destroys
}

// snoozeTexts are what is offered.
var snoozeTexts = map[string]string{"1h": "for 1 hour", "8h": "for 8 hours", "monday": "until Monday, 08:00"}

// confirm shows what an action about a change will do (KR-17-17).
func (p changes) confirm(ctx context.Context, q *query) (*answer, error) {
	d, err := p.found(ctx, q)
	if err != nil {
		return nil, err
	}
	c := &confirmation{Action: channel.Action(q.PathValue("action")), Until: channel.Snoozes[0]}
	return p.confirmed(ctx, d, c, http.StatusOK)
}

// confirmed is an action about a change as it is stored now.
func (p changes) confirmed(ctx context.Context, d *v1alpha1.Drift, c *confirmation, status int) (*answer, error) {
	i, err := p.reader.inspector(ctx)
	if err != nil {
		return nil, err
	}
	ruling, err := p.reader.ruling(ctx, i, d)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(channel.ActionsOpened(d, ruling), c.Action) {
		return nil, notOffered(d)
	}
	holder, err := p.actor.Holder(ctx, d.Spec.Parent)
	if err != nil {
		return nil, err
	}
	now := p.options.Now()
	c.Change, c.Verb, c.Shown = p.changed(d, ruling, trees(p).of(ctx, i, d)), labels[c.Action], channel.Fingerprint(d)
	c.Back, c.About = p.links.change(d, ""), c.Change.Effect
	would := channel.Click{Action: c.Action, Shown: c.Shown, Reason: "…", Until: now.Add(time.Hour), Opened: true, At: now}
	do, _ := channel.Decide(would, d, holder, p.options.User)
	for _, w := range do.Writes {
		c.Writes = append(c.Writes, "annotation "+w.Key+" of "+channel.Describe(do.On))
	}
	c.Effects = effects(c, d, ruling, do)
	if c.Snoozes, err = snoozes(c.Until, now); err != nil {
		return nil, err
	}
	return &answer{status: status, template: "confirm.html", title: c.Verb + ": " + channel.Clip(c.About), data: c}, nil
}

// snoozes are the times that are offered, one of them checked.
func snoozes(checked string, now time.Time) (out []choice, err error) {
	for _, name := range channel.Snoozes {
		until, err := channel.SnoozeUntil(name, now)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%s (%s)", snoozeTexts[name], until.UTC().Format(time.RFC3339))
		out = append(out, choice{Name: name, Text: text, Checked: name == checked})
	}
	return out, nil
}

// effects of an action about a change, in sentences.
func effects(c *confirmation, d *v1alpha1.Drift, ruling channel.Ruling, do channel.Decision) (out []string) {
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

// notOffered is the state of an action that is none for a change.
func notOffered(d *v1alpha1.Drift) error {
	if !channel.Open(d) {
		return &stateError{Status: http.StatusConflict, Title: "It is over", Text: "Nothing was done. " + d.Status.Resolution}
	}
	return &stateError{Status: http.StatusConflict, Title: "That is not possible for this change",
		Text: "Nothing was done. Open the change: it shows what may be done about it."}
}

// decide takes an action that was confirmed, about what was shown and nothing else (KR-17-03, KR-17-17).
func (p changes) decide(ctx context.Context, q *query) (*answer, error) {
	form := q.PostForm
	c := &confirmation{Action: channel.Action(q.PathValue("action")), Reason: entered(form.Get("reason")), Until: form.Get("until")}
	d, err := p.found(ctx, q)
	if err != nil {
		return nil, p.kept(q, err)
	}
	click := channel.Click{Action: c.Action, Shown: form.Get("shown"), Reason: c.Reason, Opened: form.Get("opened") == "yes", At: p.options.Now()}
	if c.Action == channel.ActionSnooze {
		if click.Until, err = channel.SnoozeUntil(c.Until, click.At); err != nil {
			c.Problem, c.Why = "Nothing was done", "Choose until when."
			return p.confirmed(ctx, d, c, http.StatusUnprocessableEntity)
		}
	}
	holder, err := p.actor.Holder(ctx, d.Spec.Parent)
	if err != nil {
		return nil, p.kept(q, err)
	}
	do, refused := channel.Decide(click, d, holder, p.options.User)
	switch {
	case refused == channel.RefusedNotOffered && channel.Destroys(d) && !click.Opened:
		c.Problem, c.Why = "Nothing was done", "Confirm that it deletes or replaces something."
		return p.confirmed(ctx, d, c, http.StatusUnprocessableEntity)
	case refused == channel.RefusedChanged:
		c.Problem, c.Why = "Nothing was done: it has changed since it was shown to you", "This is what it is now. Look at it, and decide again."
		return p.confirmed(ctx, d, c, http.StatusConflict)
	case refused == channel.RefusedIncomplete:
		c.Problem, c.Why = "Nothing was done", "Enter a reason."
		return p.confirmed(ctx, d, c, http.StatusUnprocessableEntity)
	case refused != "":
		return nil, notOffered(d)
	}
	outcome, err := p.actor.Write(ctx, d, do)
	p.reader.forget()
	if err != nil {
		state := notWritten(err)
		state.Retry = retryOf(p.base, q)
		c.Problem, c.Why = state.Title, state.Text
		if a, again := p.confirmed(ctx, d, c, state.Status); again == nil {
			return a, nil
		}
		return nil, state
	}
	q.session.note(strings.TrimSpace(done[c.Action] + " " + outcome))
	return &answer{to: p.links.change(d, "")}, nil
}

// done is what was done, as a sentence.
var done = map[channel.Action]string{
	channel.ActionApprove: "Approved.", channel.ActionReject: "Rejected.", channel.ActionWithdraw: "Withdrawn.", channel.ActionSnooze: "Snoozed.",
	channel.ActionFreeze:   "Frozen: all changes below it are refused.",
	channel.ActionUnfreeze: "Unfrozen: changes that were requested meanwhile are carried out now.",
}

// kept is an error before anything was written, with what was entered in a form to send it again (KR-17-16).
func (p *Page) kept(q *query, err error) error {
	state := (*stateError)(nil)
	if !errors.As(err, &state) {
		state = stateOf(err)
		state.Text = "Nothing was written, and what you have entered is still here: send it again. " + state.Text
		state.Retry = retryOf(p.base, q)
	}
	return state
}

// retryOf a form: what was entered, to send it again.
func retryOf(base string, q *query) *retry {
	f := q.PostForm
	return &retry{
		To: base + q.URL.RequestURI(), Reason: entered(f.Get("reason")), Shown: f.Get("shown"), Scope: f.Get("scope"), At: f.Get("at"), Until: f.Get("until"),
		Opened: f.Get("opened"),
	}
}

// entered text, bounded.
func entered(s string) string {
	s = strings.TrimSpace(channel.Printable(s))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	return s
}
