package view

import (
	"context"
	"net/http"
	"slices"

	kerrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kausality-io/function-kausality/admission/change"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// Change is what is shown of one change, on its own and where an action about it is confirmed.
type Change struct {
	channel.Entry
	Known
	// Over is how it was resolved; empty while it is open.
	Over       string
	Difference Difference
	Causes     []string
	// CauseKey is the key of its cause in the Snapshot.
	CauseKey string
	Timeline []Moment
	Votes    []v1alpha1.Vote
	// Approved: an approval is stored that no vote shows yet.
	Approved   bool
	Requesters []string
	Glass      *v1alpha1.Vote
	// Destroys: it deletes or replaces something.
	Destroys bool
	// Offered are the actions about it where all of it is shown, in their order.
	Offered []channel.Action
	// Command that approves it, where no action does.
	Command string
}

// found returns the change that a user decides about, as it is stored now.
func (v *View) found(ctx context.Context, ns, id string) (*v1alpha1.Drift, error) {
	if !change.IsID(id) {
		return nil, &State{Status: http.StatusNotFound, Title: "There is no such change", Text: "An id has 16 hexadecimal digits."}
	}
	d, err := v.stored(ctx, ns, id)
	if err == nil && d == nil {
		return nil, &State{Status: http.StatusNotFound, Title: "It is over",
			Text: "The change was decided, or another one has taken its place. The first page lists what waits now."}
	}
	return d, err
}

// look returns what was decided about a change as it is now, and the inspector that has read it. What the user may not read is left out.
func (v *View) look(ctx context.Context, d *v1alpha1.Drift) (i *inspect.Inspector, s channel.Ruling, err error) {
	if i, err = v.inspector(ctx); err != nil {
		return nil, s, err
	}
	of, err := i.Rulings().Of(ctx, []v1alpha1.Drift{*d})
	switch {
	case err == nil:
		s = of(d)
	case kerrors.IsForbidden(err):
		err = nil
	}
	return i, s, err
}

// Change is one change: what it is, from the user to the external system, and what was decided about it (KR-17-12).
func (v *View) Change(ctx context.Context, ns, id string) (*Change, error) {
	d, err := v.found(ctx, ns, id)
	if err != nil {
		return nil, err
	}
	i, ruling, err := v.look(ctx, d)
	if err != nil {
		return nil, err
	}
	c := v.changed(ctx, i, d, ruling)
	c.Timeline = timeline(d, c.hops, c.gate)
	return c, nil
}

// changed returns what is shown of a change.
func (v *View) changed(ctx context.Context, i *inspect.Inspector, d *v1alpha1.Drift, ruling channel.Ruling) *Change {
	k := trees{v.reader}.of(ctx, i, d)
	c := &Change{
		Entry: channel.EntryOf(d, ruling), Known: k, Difference: differenceOf(d, k.gate), Causes: channel.CauseLines(d.Spec.Causes),
		CauseKey: channel.CauseKey(d), Votes: d.Status.Votes, Requesters: d.Status.Requesters, Glass: d.Status.BrokenGlass,
		Approved: ruling.Approved && channel.Open(d), Destroys: channel.Destroys(d), Offered: channel.ActionsOpened(d, ruling),
	}
	if len(c.Causes) == 0 && d.Spec.Cause != "" {
		c.Causes = []string{"cause: " + d.Spec.Cause}
	}
	approvable := slices.Contains(c.Offered, channel.ActionApprove)
	if channel.Exceptable(d, ruling) {
		c.Offered = append(c.Offered, channel.ActionException)
	}
	if !channel.Open(d) {
		c.Over = "It is over: " + d.Status.Resolution
		return c
	}
	if !approvable && ruling.Rejected == nil && d.Spec.SuggestedApproval != "" {
		c.Command = channel.ApproveCommand(d.Namespace, d.Name)
	}
	return c
}
