package terminal

import (
	"strconv"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

// changePage returns the screen of a change.
func changePage(c *view.Change, now time.Time, width int) []line {
	p := &sheet{}
	p.add(lookTitle, 0, channel.Clip(c.Effect))
	p.add(lookBad, 0, c.Over)
	p.add(lookPlain, 0, "for "+age(now, c.Since)+channel.Part(", ", c.State, "")+". Decisions are kept on "+c.Parent+".")
	p.all(lookFaint, 0, c.Causes)
	p.link(&place{kind: kindCause, cause: c.CauseKey}, lookPlain, 0, "The cause")
	if to := toObject(c.Drift.Spec.Parent); to != nil && c.Over == "" {
		p.link(to, lookPlain, 0, "Freeze or unfreeze "+c.Parent)
	}
	if c.Destroys {
		p.add(lookBad, 0, "It deletes or replaces the object, or what is behind it.")
	}
	p.add(lookPlain, 0, channel.Part("It is not approved here. With the plugin: ", c.Command, ""))
	p.section("Difference").difference(&c.Difference, width)
	p.section("Votes and decisions").votes(c, now)
	p.section("From the user to the cloud").tree(c.Tree, 0, now).all(lookBad, 0, c.Notes)
	if len(c.Timeline) > 0 {
		p.section("Time line")
	}
	for _, m := range c.Timeline {
		p.add(lookPlain, 0, when(m.At)+" "+m.Text)
	}
	return p.lines
}

// votes adds the votes on a change, and what was decided about it.
func (p *sheet) votes(c *view.Change, now time.Time) *sheet {
	switch {
	case len(c.Votes) > 0:
	case c.Approved:
		p.add(lookPlain, 0, "An approval is stored. It has an effect when the controller next tries the change.")
	default:
		p.add(lookPlain, 0, "No votes.")
	}
	for n := range c.Votes {
		v := &c.Votes[n]
		p.add(lookGood, 0, v.User+channel.Part(" on behalf of ", v.OnBehalfOf, "")+", "+age(now, v.At)+" ago"+
			channel.Part(", by ", v.Via, "")+channel.Part(": ", v.Reason, ""))
	}
	if g := c.Glass; g != nil {
		p.add(lookBad, 0, g.User+" broke the glass: "+g.BreakGlass)
	}
	if len(c.Requesters) > 0 {
		p.add(lookPlain, 0, "Requested by:").all(lookPlain, 2, c.Requesters)
	}
	return p.all(lookBad, 0, c.Decided)
}

// tree adds the tree from a user to the external system.
func (p *sheet) tree(n *view.Node, depth int, now time.Time) *sheet {
	if n == nil {
		return p
	}
	text := n.Text
	if !n.At.IsZero() {
		text += ", " + age(now, n.At) + " ago"
	}
	l := map[string]look{"held": lookBad, "person": lookStrong, "object": lookStrong}[n.Kind]
	one := line{text: safe(text), look: l, indent: depth}
	if n.Object != nil {
		one.to = toObject(*n.Object)
	}
	p.put(one)
	for _, text := range n.Lines {
		p.add(lookFaint, depth+2, text)
	}
	for _, below := range n.Nodes {
		p.tree(below, depth+2, now)
	}
	return p
}

// objectPage returns the screen of an object.
func objectPage(o *view.Object, now time.Time) []line {
	p := &sheet{}
	p.add(lookTitle, 0, channel.Clip(o.Title))
	if len(o.Decided) > 0 {
		p.section("Decided").all(lookBad, 0, o.Decided)
	}
	p.section("Waits")
	if len(o.Waiting) == 0 {
		p.add(lookGood, 0, "Nothing waits about it.")
	}
	for n := range o.Waiting {
		e := &o.Waiting[n]
		p.link(toChange(e.Drift), lookStrong, 0, channel.Clip(e.Change)+", for "+age(now, e.Since))
	}
	if o.More > 0 {
		p.add(lookPlain, 0, "and "+strconv.Itoa(o.More)+" more")
	}
	p.section("From the user to the cloud").tree(o.Tree, 0, now).all(lookBad, 0, o.Notes)
	return p.lines
}

// coveragePage returns the screen with what is not protected.
func coveragePage(c *view.Coverage, now time.Time) []line {
	p := &sheet{}
	p.add(lookTitle, 0, "Coverage")
	p.add(lookPlain, 0, "What is not protected, and why, read "+age(now, c.At)+" ago. All of it: "+c.Command)
	if !c.Installed {
		p.add(lookBad, 0, "The webhook is not installed: there is no webhook configuration kausality.")
	}
	p.add(lookBad, 0, channel.Part("The webhook does not answer: ", c.Unanswered, ". Until it does, changes are refused or allowed unjudged."))
	if c.Undecided != "" {
		p.add(lookBad, 0, "What is protected is unknown: "+c.Undecided)
	} else {
		p.add(lookPlain, 0, c.Summary)
	}
	if len(c.Installation) > 0 {
		p.section("Of the installation")
	}
	for _, f := range c.Installation {
		unknown := ""
		if f.Unknown {
			unknown = " (unknown)"
		}
		p.add(lookPlain, 2, string(f.Weakness)+unknown+": "+f.Message)
	}
	for _, g := range c.Gaps {
		p.section(g.Gap).add(lookPlain, 0, g.Explained)
		for _, k := range g.Kinds {
			p.add(lookPlain, 2, counted(k.Resource, k.Count))
			for _, e := range k.Examples {
				p.add(lookFaint, 4, strings.TrimSuffix(strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")+": "+channel.Clip(e.Why), ": "))
			}
		}
	}
	if len(c.InForce) > 0 {
		p.section("Frozen and snoozed")
	}
	for _, r := range c.InForce {
		p.add(lookPlain, 2, r.Ruling+": "+strconv.Itoa(r.Count)+" of "+r.Resource)
	}
	if len(c.Unread) > 0 {
		p.section("Not read").all(lookPlain, 2, c.Unread)
	}
	return p.lines
}

// counted resource.
func counted(resource string, n int) string {
	if n == 0 {
		return resource
	}
	return resource + ", " + strconv.Itoa(n)
}
