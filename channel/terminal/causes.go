package terminal

import (
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

// causesList returns the first screen: what waits, by cause, and what cannot be approved (KR-17-20).
func causesList(s *view.Snapshot, causes []*view.Cause, now time.Time) *list {
	end := &sheet{}
	if len(s.Causes) == 0 {
		end.add(lookGood, 0, "Nothing waits for a decision.")
	}
	end.behind(s)
	return newList(len(causes)+len(end.lines), func(n int) []line {
		if n < len(causes) {
			return causeCard(causes[n], now)
		}
		return end.lines[n-len(causes) : n-len(causes)+1]
	})
}

// causeCard returns a cause in the list: the words of its card in their order.
func causeCard(c *view.Cause, now time.Time) []line {
	p, b := &sheet{}, c.Brief()
	p.link(&place{kind: kindCause, cause: c.Key}, lookStrong, 0, channel.Clip(c.Title))
	p.add(lookPlain, 2, c.Counts+", for "+age(now, c.Since))
	p.all(lookFaint, 2, b.Authors).all(lookField, 2, b.Fields).all(lookBad, 2, b.Missing)
	p.put(line{})
	return p.lines
}

// behind adds what is held, and cannot be approved meanwhile, and what is not read.
func (p *sheet) behind(s *view.Snapshot) *sheet {
	list, more := s.Listed()
	if len(list) > 0 {
		p.section("Held, and not to be approved meanwhile")
	}
	for n := range list {
		p.link(toObject(list[n].Parent), lookPlain, 2, view.BehindText(&list[n])+" below "+channel.Describe(list[n].Parent))
	}
	if more > 0 {
		p.add(lookPlain, 2, "and "+channel.Plural(more, "other"))
	}
	if notes := s.Notes(); len(notes) > 0 {
		p.section("Not read").all(lookPlain, 2, notes)
	}
	return p
}

// causeList returns the screen of a cause, with its changes.
func causeList(c *view.Cause, changes []*v1alpha1.Drift, now time.Time) *list {
	head, end := &sheet{}, &sheet{}
	head.add(lookTitle, 0, channel.Clip(c.Title)).add(lookPlain, 0, c.Counts+", for "+age(now, c.Since)).all(lookFaint, 0, c.Causes)
	if len(c.Fields) > 0 {
		head.section("Fields").all(lookField, 2, c.Fields)
	}
	if len(c.Decided) > 0 {
		head.section("Decided, and missing").all(lookBad, 2, c.Decided)
	}
	head.section("Changes")
	if c.Approve != "" {
		end.put(line{})
		end.add(lookFaint, 0, "To approve all of it: "+c.Approve)
	}
	before, n := len(head.lines), len(changes)
	return newList(before+n+len(end.lines), func(i int) []line {
		switch {
		case i < before:
			return head.lines[i : i+1]
		case i < before+n:
			return changeCard(changes[i-before], c.Ruling, now)
		}
		return end.lines[i-before-n : i-before-n+1]
	})
}

// changeCard returns a change in a list.
func changeCard(d *v1alpha1.Drift, ruling func(*v1alpha1.Drift) channel.Ruling, now time.Time) []line {
	e := channel.EntryOf(d, ruling(d))
	p := &sheet{}
	p.link(toChange(d), lookStrong, 0, channel.Clip(e.Change))
	return p.add(lookFaint, 2, "below "+e.Parent+", for "+age(now, e.Since)+channel.Part(", ", e.State, "")).lines
}
