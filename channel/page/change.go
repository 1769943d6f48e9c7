package page

import (
	"context"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

// changes are the pages of one change, and of actions about it.
type changes struct{ *Page }

// changeData of one change.
type changeData struct {
	*view.Change
	Tree       *node
	CauseHref  string
	ParentHref string
	Links      []link
}

// link to an action.
type link struct{ Text, Href, Class string }

// show shows one change: what it is, from the user to the external system, and what was decided about it (KR-17-12).
func (p changes) show(ctx context.Context, q *query) (*answer, error) {
	c, err := p.view.Change(ctx, q.URL.Query().Get("namespace"), q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	d := c.Drift
	data := &changeData{Change: c, Tree: p.tree(c.Tree), CauseHref: p.href("/cause", "key", c.CauseKey), ParentHref: p.links.object(d.Spec.Parent)}
	for _, a := range c.Offered {
		data.Links = append(data.Links, p.action(d, a))
	}
	if c.Over == "" && data.ParentHref != "" {
		data.Links = append(data.Links, link{Text: "Freeze or unfreeze " + data.Parent, Href: data.ParentHref + "#freeze", Class: "other"})
	}
	return &answer{live: true, template: "change.html", title: channel.Clip(data.Effect), data: data}, nil
}

// action returns the action about a change as a link.
func (p changes) action(d *v1alpha1.Drift, a channel.Action) link {
	if a == channel.ActionException {
		return link{Text: channel.Label(a) + "…", Href: p.links.change(d, a), Class: "other"}
	}
	return link{Text: channel.Label(a), Href: p.links.change(d, a), Class: string(a)}
}
