package terminal

import (
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

// screen shows a place.
type screen struct {
	place
	list *list
	// What was read of the place; nil for nothing, and for one that is part of the snapshot.
	change   *view.Change
	object   *view.Object
	coverage *view.Coverage
	confirm  *view.Confirmation
	// state is why it could not be read, and is shown in its place; nil for none.
	state *view.State
	// form of a confirmation.
	form *form
	// reading: it is being read; again: it is to be read again then.
	reading, again bool
	// filter of a list; empty for none.
	filter string
}

// actionKeys of the actions, which are offered in the order of the change.
var actionKeys = map[channel.Action]string{
	channel.ActionApprove: "a", channel.ActionReject: "r", channel.ActionWithdraw: "w", channel.ActionSnooze: "s", channel.ActionException: "e",
	channel.ActionFreeze: "f", channel.ActionUnfreeze: "u",
}

// actions returns the actions that are offered on a screen, in their order.
func (s *screen) actions() []channel.Action {
	switch {
	case s.state != nil:
		return nil
	case s.change != nil:
		return s.change.Offered
	case s.object != nil:
		return []channel.Action{s.object.Freeze}
	}
	return nil
}

// confirms returns the place where an action is confirmed; nil where it is not offered.
func (s *screen) confirms(key string) *place {
	for _, a := range s.actions() {
		if actionKeys[a] == key {
			to := s.place
			to.kind, to.action = kindConfirm, a
			return &to
		}
	}
	return nil
}

// live reports whether a screen is read again when something has changed. What is confirmed stays as it was shown.
func (s *screen) live() bool { return s.kind == kindChange || s.kind == kindObject }

// needs reports whether a screen is read by itself.
func (s *screen) needs() bool { return s.live() || s.kind == kindCoverage || s.kind == kindConfirm }

// filtered reports whether a screen is a list that can be filtered.
func (s *screen) filtered() bool { return s.kind == kindCauses || s.kind == kindCause }

// matches reports whether one of some texts has the filter of a list in it.
func (s *screen) matches(texts ...string) bool {
	if s.filter == "" {
		return true
	}
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), strings.ToLower(s.filter)) })
}

// causes returns the causes of the snapshot that match the filter.
func (s *screen) causes(snap *view.Snapshot) (out []*view.Cause) {
	if s.filter == "" {
		return snap.Causes
	}
	for _, c := range snap.Causes {
		if s.matches(c.Title, c.Key, strings.Join(c.Causes, "\n")) {
			out = append(out, c)
		}
	}
	return out
}

// changes returns the changes of a cause that match the filter: by their objects, and what was decided.
func (s *screen) changes(c *view.Cause) (out []*v1alpha1.Drift) {
	if s.filter == "" {
		return c.Changes
	}
	for _, d := range c.Changes {
		if s.matches(channel.Effect(d), channel.Describe(d.Spec.Parent), channel.State(d, c.Ruling(d)), d.Name) {
			out = append(out, d)
		}
	}
	return out
}

// cause of the snapshot that a screen shows; nil for none.
func (s *screen) causeOf(snap *view.Snapshot) *view.Cause {
	for _, c := range snap.Causes {
		if c.Key == s.cause {
			return c
		}
	}
	return nil
}

// build builds the list of a screen from what is known, at the same place as before.
func (m *model) build(s *screen) {
	old, next := s.list, m.listOf(s)
	next.size(m.width, m.body(s))
	if old != nil && old.width == m.width {
		s.keep(m.snap, old, next)
	}
	s.list = next
}

// listOf returns the list of what a screen shows.
func (m *model) listOf(s *screen) *list {
	now := m.now()
	switch {
	case s.state != nil:
		return listOf(statePage(s.state))
	case s.kind == kindHelp:
		return listOf(helpPage())
	case s.change != nil:
		return listOf(changePage(s.change, now, m.width))
	case s.object != nil:
		return listOf(objectPage(s.object, now))
	case s.coverage != nil:
		return listOf(coveragePage(s.coverage, now))
	case s.confirm != nil:
		return listOf(confirmPage(s.confirm, m.width))
	case s.needs(), m.snap == nil:
		return listOf([]line{{text: "Reading…", look: lookFaint}})
	case s.kind == kindCause:
		if c := s.causeOf(m.snap); c != nil {
			return causeList(c, s.changes(c), now)
		}
		return listOf(statePage(view.NoCause()))
	}
	return causesList(m.snap, s.causes(m.snap), now)
}

// keep keeps the place in a list that was built again: what was selected, as far from the top as before.
func (s *screen) keep(snap *view.Snapshot, old, next *list) {
	to := old.opens(old.cursor)
	n := s.find(snap, next, to)
	if have := next.opens(old.cursor); to != nil && have != nil && *have == *to { // there may be several that lead there
		n = old.cursor
	}
	if to == nil || n < 0 {
		next.show(min(old.at, max(next.n-1, 0)), old.off)
		next.clamp()
		next.mark(next.near(next.at, +1, next.height))
		return
	}
	next.mark(n)
	next.show(max(n-(old.cursor-old.at), 0), 0)
	if next.at == old.at {
		next.show(next.at, min(old.off, len(next.rows(next.at))-1))
	}
	next.clamp()
}

// find finds the item of a list that leads to a place; -1 for none.
func (s *screen) find(snap *view.Snapshot, l *list, to *place) int {
	if to == nil {
		return -1
	}
	switch {
	case s.state != nil || snap == nil:
	case s.kind == kindCauses && to.kind == kindCause:
		return slices.IndexFunc(s.causes(snap), func(c *view.Cause) bool { return c.Key == to.cause })
	case s.kind == kindCause:
		c := s.causeOf(snap)
		if c == nil {
			return -1
		}
		changes := s.changes(c)
		n := slices.IndexFunc(changes, func(d *v1alpha1.Drift) bool { return d.Namespace == to.namespace && d.Name == to.id })
		if first := l.near(0, +1, l.n); n >= 0 && first >= 0 {
			return first + n
		}
		return -1
	}
	for n := range min(l.n, maxKept) { // a page: lists of many are above
		if have := l.opens(n); have != nil && *have == *to {
			return n
		}
	}
	return -1
}

// statePage is shown in place of what could not be read.
func statePage(s *view.State) []line {
	return (&sheet{}).add(lookTitle, 0, s.Title).add(lookBad, 0, s.Text).lines
}

// helpPage lists the keys.
func helpPage() []line {
	p := (&sheet{}).add(lookTitle, 0, "Keys")
	for _, k := range [][2]string{
		{"j, k, arrows", "move, or scroll"}, {"g, G", "first, last"}, {"space, PgDn, PgUp", "a screen on, or back"},
		{"Enter, l, right", "open what is selected"}, {"Esc, h, left", "back"}, {"/", "filter a list; an empty filter shows all"},
		{"c", "coverage: what is not protected"}, {"R", "read again"}, {"?", "this help"}, {"q, Ctrl-C", "quit"},
	} {
		p.add(lookPlain, 2, fit(k[0], 20)+k[1])
	}
	p.section("On a change or an object, where it is offered")
	for _, a := range []channel.Action{channel.ActionApprove, channel.ActionReject, channel.ActionWithdraw, channel.ActionSnooze, channel.ActionException,
		channel.ActionFreeze, channel.ActionUnfreeze} {
		p.add(lookPlain, 2, fit(actionKeys[a], 20)+channel.Label(a))
	}
	p.section("Before anything is written")
	p.add(lookPlain, 2, "A screen shows what it will do and what is written. Enter takes the action, Esc does not. "+
		"Tab goes to the next field, left and right choose.")
	return p.lines
}
