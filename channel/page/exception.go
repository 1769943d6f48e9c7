package page

import (
	"context"
	"fmt"
	"net/http"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// maxExcepted changes that are listed of those an exception would have let pass, too.
const maxExcepted = 5

// exceptions are the pages of exceptions from approvals.
type exceptions struct{ changes }

// exceptionData of an exception before it is made.
type exceptionData struct {
	confirmation
	Scopes []scopeData
	Policy string
}

// scopeData is what an exception may be about.
type scopeData struct {
	choice
	// Others that it would have let pass, too, of all that are known; More are not listed.
	Others []string
	More   int
}

// confirm shows what an exception like a change will let pass (KR-17-19).
func (p exceptions) confirm(ctx context.Context, q *query) (*answer, error) {
	d, err := p.found(ctx, q)
	if err != nil {
		return nil, err
	}
	return p.confirmed(ctx, d, exceptionForm{scope: channel.ExceptionObject, until: channel.Snoozes[0]}, http.StatusOK)
}

// exceptionForm is what the user has entered, and why it was not done; problem is empty for none.
type exceptionForm struct {
	scope        channel.ExceptionScope
	until        string
	problem, why string
}

// confirmed is an exception like a change as it is stored now.
func (p exceptions) confirmed(ctx context.Context, d *v1alpha1.Drift, form exceptionForm, status int) (*answer, error) {
	i, err := p.reader.inspector(ctx)
	if err != nil {
		return nil, err
	}
	ruling, err := p.reader.ruling(ctx, i, d)
	if err != nil {
		return nil, err
	}
	if !channel.Exceptable(d, ruling) {
		return nil, notOffered(d)
	}
	data := &exceptionData{confirmation: confirmation{
		Action: channel.ActionException, Verb: labels[channel.ActionException], Shown: channel.Fingerprint(d), Back: p.links.change(d, ""),
		Change: p.changed(d, ruling, trees(p.changes).of(ctx, i, d)), Until: form.until, Problem: form.problem, Why: form.why,
	}}
	data.About = data.Change.Effect
	now := p.options.Now()
	if data.Snoozes, err = snoozes(form.until, now); err != nil {
		return nil, err
	}
	known, err := inspect.Drifts(ctx, p.reader.client, d.Namespace, func(*v1alpha1.Drift) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, scope := range channel.ExceptionScopes {
		data.Scopes = append(data.Scopes, scopeOf(d, scope, form.scope, known))
	}
	would, refused := channel.DecideException(channel.Click{Shown: data.Shown, Until: now.Add(time.Hour)}, form.scope, d, ruling)
	if refused != "" {
		return nil, notOffered(d)
	}
	data.Effects = exceptionEffects(d, ruling, would)
	policy, err := would.Policy()
	if err != nil {
		return nil, err
	}
	raw, err := yaml.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("cannot show the policy: %w", err)
	}
	data.Policy = string(raw)
	return &answer{status: status, template: "exception.html", title: data.Verb + ": " + channel.Clip(data.About), data: data}, nil
}

// scopeOf an exception, with the known changes that it would have let pass.
func scopeOf(d *v1alpha1.Drift, scope, chosen channel.ExceptionScope, known []v1alpha1.Drift) scopeData {
	s := scopeData{choice: choice{Name: string(scope), Checked: scope == chosen, Text: "of " + channel.Describe(d.Spec.Child) + " alone"}}
	if scope == channel.ExceptionKind {
		s.Text = "of each " + d.Spec.Child.Kind + " of " + d.Spec.Child.APIVersion
		if ns := d.Spec.Child.Namespace; ns != "" {
			s.Text += " in Namespace " + ns
		}
	}
	for n := range known {
		other := &known[n]
		switch {
		case other.Name == d.Name || !channel.Excepted(d, scope, other):
		case len(s.Others) == maxExcepted:
			s.More++
		default:
			s.Others = append(s.Others, channel.EntryOf(other, channel.Ruling{}).Change)
		}
	}
	return s
}

// exceptionEffects are what an exception will do, in sentences.
func exceptionEffects(d *v1alpha1.Drift, ruling channel.Ruling, would *channel.Exception) []string {
	out := []string{
		"Until the time that you choose, updates by " + d.Spec.User + " pass without an approval: each of them, and of any field.",
		"Deletions are held as before, and so is what changes the external name or the provider configuration. Rejections and freezes refuse as before.",
		"The change below passes when its controller tries it again.",
		"To end it before its time: " + would.RemoveCommand(),
	}
	if d.Status.Lacks != "" {
		out = append(out, "The votes that are missing are not needed then: "+d.Status.Lacks+".")
	}
	if ruling.Frozen != nil {
		out = append(out, "It has an effect once the freeze ends: "+ruling.Frozen.Why()+".")
	}
	return out
}

// decide makes an exception that was confirmed, about what was shown and nothing else (KR-17-03, KR-17-19).
func (p exceptions) decide(ctx context.Context, q *query) (*answer, error) {
	form := exceptionForm{scope: channel.ExceptionScope(q.PostForm.Get("scope")), until: q.PostForm.Get("until")}
	d, err := p.found(ctx, q)
	if err != nil {
		return nil, p.kept(q, err)
	}
	i, err := p.reader.inspector(ctx)
	if err != nil {
		return nil, p.kept(q, err)
	}
	ruling, err := p.reader.ruling(ctx, i, d)
	if err != nil {
		return nil, p.kept(q, err)
	}
	again := func(problem, why string, status int) (*answer, error) {
		if form.scope != channel.ExceptionKind {
			form.scope = channel.ExceptionObject
		}
		form.problem, form.why = problem, why
		return p.confirmed(ctx, d, form, status)
	}
	click := channel.Click{Action: channel.ActionException, Shown: q.PostForm.Get("shown")}
	if click.Until, err = channel.SnoozeUntil(form.until, p.options.Now()); err != nil {
		return again("Nothing was done", "Choose until when.", http.StatusUnprocessableEntity)
	}
	exception, refused := channel.DecideException(click, form.scope, d, ruling)
	switch {
	case refused == channel.RefusedChanged:
		return again("Nothing was done: it has changed since it was shown to you", "This is what it is now. Look at it, and decide again.", http.StatusConflict)
	case refused == channel.RefusedIncomplete:
		return again("Nothing was done", "Choose what it is about.", http.StatusUnprocessableEntity)
	case refused != "":
		return nil, notOffered(d)
	}
	policy, err := exception.Policy()
	if err != nil {
		return nil, err
	}
	err = p.actor.Create(ctx, policy)
	p.reader.forget()
	if err != nil {
		state := notCreated(exception.Kind(), err)
		if a, shown := again(state.Title, state.Text, state.Status); shown == nil {
			return a, nil
		}
		return nil, state
	}
	q.session.note(fmt.Sprintf("There is an exception until %s: %s %s. To end it: %s", exception.Spec.Rules[0].Expiry.UTC().Format(time.RFC3339),
		exception.Kind(), exception.Name, exception.RemoveCommand()))
	return &answer{to: p.links.change(d, "")}, nil
}

// notCreated is the state of a policy that the cluster did not take.
func notCreated(kind string, err error) *stateError {
	if kerrors.IsForbidden(err) {
		return &stateError{Status: http.StatusForbidden, Title: "Nothing was done: you may not do that",
			Text: "It takes the verb create on " + kind + " and, where an ApprovalRule is about its changes, the right that the rule requires. The cluster answers: " +
				err.Error()}
	}
	return notWritten(err)
}
