package view

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/actor"
	"github.com/kausality-io/function-kausality/cli/inspect"
	"github.com/kausality-io/function-kausality/internal/lists"
)

const (
	// maxExcepted changes that are listed of those an exception would have let pass, too.
	maxExcepted = 5
	// shownFor is how long the times of a form that was shown are good.
	shownFor = time.Hour
)

// exceptions that are shown and made.
type exceptions struct{ *View }

// Exception is what is shown of an exception before it is made.
type Exception struct {
	Scopes []Scope
	Policy string
	// At is when it was shown, in seconds since 1970: the times to choose are counted from then, so that a form that is sent twice makes one exception.
	At string
	// Unknown is a sentence about changes that are not known to the user; empty for none.
	Unknown string
}

// Scope is what an exception may be about.
type Scope struct {
	Choice
	// Others that it would have let pass, too, of all that are known; More are not listed.
	Others []string
	More   int
}

// minute is this one: exceptions end at full minutes.
func (x exceptions) minute() time.Time { return x.options.Now().Truncate(time.Minute) }

// exceptionForm is what the user has entered in a form that was shown at a time.
type exceptionForm struct {
	scope channel.ExceptionScope
	until string
	at    time.Time
}

// exceptionOf reads a form. Its times begin now where it was shown too long ago.
func (x exceptions) exceptionOf(f Form) exceptionForm {
	out := exceptionForm{scope: channel.ExceptionScope(f.Scope), until: f.Until, at: x.minute()}
	if seconds, err := strconv.ParseInt(f.At, 10, 64); err == nil {
		if at := time.Unix(seconds, 0).In(out.at.Location()); !at.After(out.at) && out.at.Sub(at) <= shownFor {
			out.at = at
		}
	}
	return out
}

// click returns the click that a form makes; without a time if it has none.
func (f *exceptionForm) click(shown string) channel.Click {
	until, err := channel.SnoozeUntil(f.until, f.at)
	if err != nil {
		until = time.Time{} // which is incomplete
	}
	return channel.Click{Action: channel.ActionException, Shown: shown, Until: until}
}

// excepting confirms an exception like a change as it is stored now.
func (x exceptions) excepting(ctx context.Context, d *v1alpha1.Drift, form exceptionForm, c *Confirmation) (*Confirmation, error) {
	i, ruling, err := x.look(ctx, d)
	if err != nil {
		return nil, err
	}
	if !channel.Exceptable(d, ruling) || !actor.Scoped(x.options.Mapper, d) {
		return nil, notOffered(d)
	}
	shown := &Exception{At: strconv.FormatInt(form.at.Unix(), 10)}
	c.Action, c.Verb, c.Shown = channel.ActionException, channel.Label(channel.ActionException), channel.Fingerprint(d)
	c.Exception, c.Change, c.Until = shown, x.changed(ctx, i, d, ruling), form.until
	c.About = c.Change.Effect
	if c.Snoozes, err = snoozes(form.until, form.at); err != nil {
		return nil, err
	}
	known, err := x.others(ctx, d)
	if kerrors.IsForbidden(err) {
		shown.Unknown, err = "You may not list all changes that it could let pass.", nil
	}
	if err != nil {
		return nil, err
	}
	shown.Scopes = lists.Map(channel.ExceptionScopes, func(s channel.ExceptionScope) Scope { return scopeOf(d, s, form.scope, known) })
	would, refused := channel.DecideException(form.click(c.Shown), form.scope, d, ruling)
	if refused == channel.RefusedIncomplete { // it is shown with the first choices
		first := exceptionForm{until: channel.Snoozes[0], at: form.at}
		would, refused = channel.DecideException(first.click(c.Shown), channel.ExceptionObject, d, ruling)
	}
	if refused != "" {
		return nil, notOffered(d)
	}
	c.Effects = channel.ExceptionEffects(d, ruling)
	policy, err := would.Policy()
	if err != nil {
		return nil, err
	}
	raw, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("cannot show the policy: %w", err)
	}
	shown.Policy = string(raw)
	return c, nil
}

// others returns the known changes that an exception like a change would have let pass, too. Drifts are in the Namespace of the parent, if it has one.
func (x exceptions) others(ctx context.Context, d *v1alpha1.Drift) ([]v1alpha1.Drift, error) {
	in := d.Namespace
	if d.Spec.Child.Namespace != in {
		in = metav1.NamespaceAll
	}
	return inspect.Drifts(ctx, x.client, in, func(other *v1alpha1.Drift) bool {
		openSlim(other)
		return (other.Namespace != d.Namespace || other.Name != d.Name) && channel.Excepted(d, channel.ExceptionKind, other)
	})
}

// scopeOf returns the scope of an exception, with the known changes that it would have let pass.
func scopeOf(d *v1alpha1.Drift, scope, chosen channel.ExceptionScope, known []v1alpha1.Drift) Scope {
	s := Scope{Choice: Choice{Name: string(scope), Checked: scope == chosen, Text: channel.ScopeText(d, scope)}}
	for n := range known {
		other := &known[n]
		switch {
		case !channel.Excepted(d, scope, other):
		case len(s.Others) == maxExcepted:
			s.More++
		default:
			s.Others = append(s.Others, channel.EntryOf(other, channel.Ruling{}).Change)
		}
	}
	return s
}

// except makes an exception that was confirmed, about what was shown and nothing else (KR-17-03, KR-17-19).
func (x exceptions) except(ctx context.Context, d *v1alpha1.Drift, f Form) (done string, again *Confirmation, err error) {
	form := x.exceptionOf(f)
	_, ruling, err := x.look(ctx, d)
	if err != nil {
		return "", nil, x.options.kept(err)
	}
	retry := func(status int, problem, why string) (string, *Confirmation, error) {
		if form.scope != channel.ExceptionKind {
			form.scope = channel.ExceptionObject
		}
		c := &Confirmation{}
		c.problem(status, problem, why)
		again, err := x.excepting(ctx, d, form, c)
		if err != nil {
			return "", nil, x.options.kept(err)
		}
		return "", again, nil
	}
	exception, refused := channel.DecideException(form.click(f.Shown), form.scope, d, ruling)
	switch {
	case refused == channel.RefusedChanged:
		return retry(http.StatusConflict, changedTitle, changedWhy)
	case refused == channel.RefusedIncomplete:
		return retry(http.StatusUnprocessableEntity, "Nothing was done", "Choose what it is about, and until when.")
	case refused != "" || !actor.Scoped(x.options.Mapper, d):
		return "", nil, notOffered(d)
	}
	policy, err := exception.Policy()
	if err != nil {
		return "", nil, err
	}
	err = x.actor.Create(ctx, policy)
	x.forget()
	if err != nil {
		state := x.notCreated(exception, err)
		state.Kept = true
		if _, again, failed := retry(state.Status, state.Title, state.Text); failed == nil {
			return "", again, nil
		}
		return "", nil, state
	}
	return fmt.Sprintf("There is an exception until %s: %s %s. To end it: %s", exception.Spec.Rules[0].Expiry.UTC().Format(time.RFC3339),
		exception.Kind(), exception.Name, exception.RemoveCommand()), nil, nil
}

// notCreated returns the state of a policy that the cluster did not take.
func (x exceptions) notCreated(e *channel.Exception, err error) *State {
	if kerrors.IsForbidden(err) {
		return &State{Status: http.StatusForbidden, Title: "Nothing was done: you may not do that",
			Text: "It takes the verbs create and get on " + e.Resource() + " and, where an ApprovalRule may be about such changes, the verb approve on " + e.Resource() +
				"/approval. The cluster answers: " + err.Error()}
	}
	return x.options.notWritten(err)
}
