package page

import (
	"context"
	"net/http"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
)

// changes are the pages of one change, and of actions about it.
type changes struct{ *Page }

// changeData of one change.
type changeData struct {
	channel.Entry
	known
	// Over is how it was resolved; empty while it is open.
	Over       string
	Difference difference
	Causes     []string
	CauseHref  string
	ParentHref string
	Timeline   []moment
	Votes      []v1alpha1.Vote
	// Approved: an approval is stored that no vote shows yet.
	Approved   bool
	Requesters []string
	Glass      *v1alpha1.Vote
	// Destroys: it deletes or replaces something.
	Destroys bool
	Links    []link
	// Command that approves it, where the page does not.
	Command string
}

// link to an action.
type link struct{ Text, Href, Class string }

// labels of actions on links and buttons.
var labels = map[channel.Action]string{
	channel.ActionApprove: "Approve once", channel.ActionReject: "Reject", channel.ActionWithdraw: "Withdraw", channel.ActionSnooze: "Snooze",
	channel.ActionFreeze: "Freeze", channel.ActionUnfreeze: "Unfreeze", channel.ActionException: "Make an exception",
}

// found is the change that a query is about, as it is stored now.
func (p changes) found(ctx context.Context, q *query) (*v1alpha1.Drift, error) {
	id := q.PathValue("id")
	if !change.IsID(id) {
		return nil, &stateError{Status: http.StatusNotFound, Title: "There is no such change", Text: "An id has 16 hexadecimal digits."}
	}
	d, err := p.reader.change(ctx, q.URL.Query().Get("namespace"), id)
	if err == nil && d == nil {
		return nil, &stateError{Status: http.StatusNotFound, Title: "It is over",
			Text: "The change was decided, or another one has taken its place. The first page lists what waits now."}
	}
	return d, err
}

// show one change: what it is, from the user to the external system, and what was decided about it (KR-17-12).
func (p changes) show(ctx context.Context, q *query) (*answer, error) {
	d, err := p.found(ctx, q)
	if err != nil {
		return nil, err
	}
	i, err := p.reader.inspector(ctx)
	if err != nil {
		return nil, err
	}
	ruling, err := p.reader.ruling(ctx, i, d)
	if err != nil {
		return nil, err
	}
	data := p.changed(d, ruling, trees(p).of(ctx, i, d))
	data.Timeline = timeline(d, data.hops, data.gate)
	for _, a := range channel.ActionsOpened(d, ruling) {
		data.Links = append(data.Links, link{Text: labels[a], Href: p.links.change(d, a), Class: string(a)})
	}
	if channel.Exceptable(d, ruling) {
		data.Links = append(data.Links, link{Text: labels[channel.ActionException] + "…", Href: p.links.change(d, channel.ActionException), Class: "other"})
	}
	if channel.Open(d) && data.ParentHref != "" {
		data.Links = append(data.Links, link{Text: "Freeze or unfreeze " + data.Parent, Href: data.ParentHref + "#freeze", Class: "other"})
	}
	return &answer{live: true, template: "change.html", title: channel.Clip(data.Effect), data: data}, nil
}

// changed is what is shown of a change on its page, and where an action is confirmed.
func (p changes) changed(d *v1alpha1.Drift, ruling channel.Ruling, k known) *changeData {
	data := &changeData{
		Entry: channel.EntryOf(d, ruling), known: k, Difference: differenceOf(d, k.gate), Causes: channel.CauseLines(d.Spec.Causes),
		CauseHref:  p.href("/cause", "key", channel.CauseKey(d)),
		ParentHref: p.links.object(d.Spec.Parent),
		Votes:      d.Status.Votes, Requesters: d.Status.Requesters, Glass: d.Status.BrokenGlass, Approved: ruling.Approved && channel.Open(d),
		Destroys: channel.Destroys(d),
	}
	if len(data.Causes) == 0 && d.Spec.Cause != "" {
		data.Causes = []string{"cause: " + d.Spec.Cause}
	}
	if !channel.Open(d) {
		data.Over = "It is over: " + d.Status.Resolution
		return data
	}
	approvable := false
	for _, a := range channel.ActionsOpened(d, ruling) {
		approvable = approvable || a == channel.ActionApprove
	}
	if !approvable && ruling.Rejected == nil && d.Spec.SuggestedApproval != "" {
		data.Command = channel.ApproveCommand(d.Namespace, d.Name)
	}
	return data
}
