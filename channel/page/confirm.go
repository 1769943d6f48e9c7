package page

import (
	"context"
	"errors"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

// confirmData is an action before it is taken.
type confirmData struct {
	*view.Confirmation
	// Back leads to what it is about.
	Back string
	// To is where it is sent; empty for the address of the page.
	To string
}

// confirmation returns the confirmation as a page, with links to where it leads.
func confirmation(c *view.Confirmation, back, to string) *answer {
	a := &answer{status: c.Status, template: "confirm.html", title: c.Verb + ": " + channel.Clip(c.About), data: &confirmData{c, back, to}}
	if c.Exception != nil {
		a.template = "exception.html"
	}
	return a
}

// confirm shows what an action about a change will do (KR-17-17).
func (p changes) confirm(ctx context.Context, q *query) (*answer, error) {
	c, err := p.view.Confirm(ctx, q.URL.Query().Get("namespace"), q.PathValue("id"), channel.Action(q.PathValue("action")))
	if err != nil {
		return nil, err
	}
	return confirmation(c, p.links.change(c.Change.Drift, ""), ""), nil
}

// decide takes an action that was confirmed, about what was shown and nothing else (KR-17-03, KR-17-17).
func (p changes) decide(ctx context.Context, q *query) (*answer, error) {
	ns, id := q.URL.Query().Get("namespace"), q.PathValue("id")
	done, again, err := p.view.Decide(ctx, ns, id, formOf(q))
	switch {
	case err != nil:
		return nil, retried(p.base, q, err)
	case again != nil:
		return confirmation(again, p.links.change(again.Change.Drift, ""), ""), nil
	}
	q.session.Note(done)
	d := &v1alpha1.Drift{}
	d.Namespace, d.Name = ns, id
	return &answer{to: p.links.change(d, "")}, nil
}

// formOf returns the form of a query.
func formOf(q *query) view.Form {
	f := q.PostForm
	return view.Form{
		Action: channel.Action(q.PathValue("action")), Shown: f.Get("shown"), Reason: f.Get("reason"), Until: f.Get("until"), Scope: f.Get("scope"), At: f.Get("at"),
		Opened: f.Get("opened") == "yes",
	}
}

// retried is an error, with what was entered in a form to send it again where that is good (KR-17-16).
func retried(base string, q *query, err error) error {
	state := (*view.State)(nil)
	if !errors.As(err, &state) || !state.Kept {
		return err
	}
	f := q.PostForm
	return &stateError{State: state, Retry: &retry{
		To: base + q.URL.RequestURI(), Reason: view.Entered(f.Get("reason")), Shown: f.Get("shown"), Scope: f.Get("scope"), At: f.Get("at"), Until: f.Get("until"),
		Opened: f.Get("opened"),
	}}
}
