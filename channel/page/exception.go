package page

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

const (
	// maxExcepted changes that are listed of those an exception would have let pass, too.
	maxExcepted = 5
	// shownFor is how long the times of a form that was shown are good.
	shownFor = time.Hour
)

// exceptions are the pages of exceptions from approvals.
type exceptions struct{ changes }

// exceptionData of an exception before it is made.
type exceptionData struct {
	confirmation
	Scopes []scopeData
	Policy string
	// At is when it was shown, in seconds since 1970: the times to choose are counted from then, so that a form that is sent twice makes one exception.
	At string
	// Unknown is a sentence about changes that are not known to the user; empty for none.
	Unknown string
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
	return p.confirmed(ctx, d, exceptionForm{scope: channel.ExceptionObject, until: channel.Snoozes[0], at: p.minute()}, http.StatusOK)
}

// minute is this one: exceptions end at full minutes.
func (p exceptions) minute() time.Time { return p.options.Now().Truncate(time.Minute) }

// exceptionForm is what the user has entered in a form that was shown at a time, and why it was not done; problem is empty for none.
type exceptionForm struct {
	scope        channel.ExceptionScope
	until        string
	at           time.Time
	problem, why string
}

// formOf a query. Its times begin now where it was shown too long ago.
func (p exceptions) formOf(q *query) exceptionForm {
	f := exceptionForm{scope: channel.ExceptionScope(q.PostForm.Get("scope")), until: q.PostForm.Get("until"), at: p.minute()}
	if seconds, err := strconv.ParseInt(q.PostForm.Get("at"), 10, 64); err == nil {
		if at := time.Unix(seconds, 0).In(f.at.Location()); !at.After(f.at) && f.at.Sub(at) <= shownFor {
			f.at = at
		}
	}
	return f
}

// click that a form makes; without a time if it has none.
func (f *exceptionForm) click(shown string) channel.Click {
	until, err := channel.SnoozeUntil(f.until, f.at)
	if err != nil {
		until = time.Time{} // which is incomplete
	}
	return channel.Click{Action: channel.ActionException, Shown: shown, Until: until}
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
	if !channel.Exceptable(d, ruling) || !p.scoped(d) {
		return nil, notOffered(d)
	}
	data := &exceptionData{confirmation: confirmation{
		Action: channel.ActionException, Verb: labels[channel.ActionException], Shown: channel.Fingerprint(d), Back: p.links.change(d, ""),
		Change: p.changed(d, ruling, trees(p.changes).of(ctx, i, d)), Until: form.until, Problem: form.problem, Why: form.why,
	}}
	data.About, data.At = data.Change.Effect, strconv.FormatInt(form.at.Unix(), 10)
	if data.Snoozes, err = snoozes(form.until, form.at); err != nil {
		return nil, err
	}
	known, err := p.others(ctx, d)
	if kerrors.IsForbidden(err) {
		data.Unknown, err = "You may not list all changes that it could let pass.", nil
	}
	if err != nil {
		return nil, err
	}
	for _, scope := range channel.ExceptionScopes {
		data.Scopes = append(data.Scopes, scopeOf(d, scope, form.scope, known))
	}
	would, refused := channel.DecideException(form.click(data.Shown), form.scope, d, ruling)
	if refused == channel.RefusedIncomplete { // it is shown with the first choices
		first := exceptionForm{until: channel.Snoozes[0], at: form.at}
		would, refused = channel.DecideException(first.click(data.Shown), channel.ExceptionObject, d, ruling)
	}
	if refused != "" {
		return nil, notOffered(d)
	}
	data.Effects = exceptionEffects(d, ruling)
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

// scoped reports whether a change is about an object in a Namespace, or of a kind that has none: without one, an exception is for the whole cluster.
func (p exceptions) scoped(d *v1alpha1.Drift) bool {
	gvk := schema.FromAPIVersionAndKind(d.Spec.Child.APIVersion, d.Spec.Child.Kind)
	m, err := p.options.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err == nil && (m.Scope.Name() == meta.RESTScopeNameRoot) == (d.Spec.Child.Namespace == "")
}

// others are the known changes that an exception like a change would have let pass, too. Drifts are in the Namespace of the parent, if it has one.
func (p exceptions) others(ctx context.Context, d *v1alpha1.Drift) ([]v1alpha1.Drift, error) {
	in := d.Namespace
	if d.Spec.Child.Namespace != in {
		in = metav1.NamespaceAll
	}
	return inspect.Drifts(ctx, p.reader.client, in, func(other *v1alpha1.Drift) bool {
		openSlim(other)
		return (other.Namespace != d.Namespace || other.Name != d.Name) && channel.Excepted(d, channel.ExceptionKind, other)
	})
}

// scopeOf an exception, with the known changes that it would have let pass.
func scopeOf(d *v1alpha1.Drift, scope, chosen channel.ExceptionScope, known []v1alpha1.Drift) scopeData {
	s := scopeData{choice: choice{Name: string(scope), Checked: scope == chosen, Text: "of " + channel.Describe(d.Spec.Child) + " alone"}}
	if scope == channel.ExceptionKind {
		s.Text = "of each " + d.Spec.Child.Kind + " of " + d.Spec.Child.APIVersion
		if ns := d.Spec.Child.Namespace; ns != "" {
			s.Text += " in Namespace " + ns
		} else {
			s.Text += " in the whole cluster"
		}
	}
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

// exceptionEffects are what an exception will do, in sentences.
func exceptionEffects(d *v1alpha1.Drift, ruling channel.Ruling) []string {
	out := []string{
		"Until the time that you choose, updates by " + d.Spec.User + " pass without an approval: each of them, and of any field.",
		"Its deletion is held as before, and so is what changes its external name, provider configuration or deletion policy.",
		"Rejections and freezes refuse as before.",
		"What its own controller then changes below it follows from that.",
		"The change below passes when its controller tries it again. The command that ends the exception before its time is shown then.",
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
	form := p.formOf(q)
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
		a, err := p.confirmed(ctx, d, form, status)
		if err != nil {
			return nil, p.kept(q, err)
		}
		return a, nil
	}
	click := form.click(q.PostForm.Get("shown"))
	exception, refused := channel.DecideException(click, form.scope, d, ruling)
	switch {
	case refused == channel.RefusedChanged:
		return again("Nothing was done: it has changed since it was shown to you", "This is what it is now. Look at it, and decide again.", http.StatusConflict)
	case refused == channel.RefusedIncomplete:
		return again("Nothing was done", "Choose what it is about, and until when.", http.StatusUnprocessableEntity)
	case refused != "" || !p.scoped(d):
		return nil, notOffered(d)
	}
	policy, err := exception.Policy()
	if err != nil {
		return nil, err
	}
	err = p.actor.Create(ctx, policy)
	p.reader.forget()
	if err != nil {
		state := notCreated(exception, err)
		state.Retry = retryOf(p.base, q)
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
func notCreated(e *channel.Exception, err error) *stateError {
	if kerrors.IsForbidden(err) {
		return &stateError{Status: http.StatusForbidden, Title: "Nothing was done: you may not do that",
			Text: "It takes the verbs create and get on " + e.Resource() + " and, where an ApprovalRule may be about such changes, the verb approve on " + e.Resource() +
				"/approval. The cluster answers: " + err.Error()}
	}
	return notWritten(err)
}
