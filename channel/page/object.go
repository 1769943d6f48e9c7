package page

import (
	"context"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

// objects are the pages of one object, and of its freeze.
type objects struct{ *Page }

// objectData of one object.
type objectData struct {
	*view.Object
	Tree    *node
	Waiting []listed
	// Freeze is the link that freezes or unfreezes it.
	Freeze link
}

// referenced returns the object that a query names.
func referenced(q *query) v1alpha1.ObjectReference {
	v := q.URL.Query()
	return v1alpha1.ObjectReference{APIVersion: v.Get("apiVersion"), Kind: v.Get("kind"), Namespace: v.Get("namespace"), Name: v.Get("name")}
}

// show shows one object: from the user to the external system, what waits about it, and what was decided.
func (p objects) show(ctx context.Context, q *query) (*answer, error) {
	o, err := p.view.Object(ctx, referenced(q))
	if err != nil {
		return nil, err
	}
	data := &objectData{Object: o, Tree: p.tree(o.Tree)}
	for n := range o.Waiting {
		e := &o.Waiting[n]
		data.Waiting = append(data.Waiting, listed{Entry: e, Href: p.links.change(e.Drift, ""), Change: channel.Clip(e.Change)})
	}
	data.Freeze = link{Text: channel.Label(o.Freeze), Href: p.links.freeze(o.Ref, o.Freeze), Class: string(o.Freeze)}
	return &answer{live: true, template: "object.html", title: channel.Clip(o.Title), data: data}, nil
}

// confirm shows what a freeze, or its end, will do.
func (p objects) confirm(ctx context.Context, q *query) (*answer, error) {
	ref := referenced(q)
	c, err := p.view.ConfirmFreeze(ctx, ref, channel.Action(q.PathValue("action")))
	if err != nil {
		return nil, err
	}
	return p.confirmed(ref, c), nil
}

// confirmed returns the page that confirms a freeze.
func (p objects) confirmed(ref v1alpha1.ObjectReference, c *view.Confirmation) *answer {
	return confirmation(c, p.links.object(ref), p.links.freeze(ref, c.Action)) // it may be shown where the other one was sent
}

// decide freezes an object, or ends that, as it was confirmed.
func (p objects) decide(ctx context.Context, q *query) (*answer, error) {
	ref := referenced(q)
	done, again, err := p.view.DecideFreeze(ctx, ref, formOf(q))
	switch {
	case err != nil:
		return nil, retried(p.base, q, err)
	case again != nil:
		return p.confirmed(ref, again), nil
	}
	q.session.Note(done)
	return &answer{to: p.links.object(ref)}, nil
}
