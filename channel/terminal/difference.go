package terminal

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

const (
	// columnsFrom is the width from which values are side by side.
	columnsFrom = 100
	// changedMark is before lines of a value that the other one does not have.
	changedMark, sameMark = "* ", "  "
)

// difference adds the difference of a change: its fields with their values, side by side where the terminal is wide enough. A width of 0 is for one below
// the other.
func (p *sheet) difference(d *view.Difference, width int) *sheet {
	if len(d.Rows) == 0 {
		return p.add(lookPlain, 0, "No single field is known of it.")
	}
	for n := range d.Rows {
		r := &d.Rows[n]
		p.add(lookStrong, 0, r.Path)
		if width >= columnsFrom {
			p.columns(r, (width-len(marker)-2)/len(r.Cells)-2)
			continue
		}
		for i := range r.Cells {
			p.cell(&r.Cells[i])
		}
	}
	if d.More > 0 {
		p.add(lookPlain, 0, strconv.Itoa(d.More)+" more fields. All of them: kubectl get drift -o yaml")
	}
	return p
}

// cell adds a value below the name of its column.
func (p *sheet) cell(c *view.Cell) {
	lines := cellLines(c)
	if len(lines) == 1 {
		p.put(line{text: fit(c.Column+":", 14) + strings.TrimSpace(lines[0]), look: lookField, indent: 2})
		return
	}
	p.add(lookPlain, 2, c.Column+":")
	for _, l := range lines {
		p.changed(l, 4)
	}
}

// changed is a line of a value, which may be one that the other does not have.
func (p *sheet) changed(text string, indent int) {
	l := lookField
	if strings.HasPrefix(text, changedMark) {
		l = lookChanged
	}
	p.put(line{text: text, look: l, indent: indent})
}

// columns adds the values of a row side by side.
func (p *sheet) columns(r *view.Row, width int) {
	all, names, most := make([][]string, len(r.Cells)), "", 0
	for n := range r.Cells {
		names += fit(r.Cells[n].Column, width) + "  "
		for _, l := range cellLines(&r.Cells[n]) {
			rest := strings.TrimPrefix(strings.TrimPrefix(l, changedMark), sameMark)
			mark := l[:len(l)-len(rest)]
			for i, part := range wrap(rest, width-ansi.StringWidth(mark)) {
				if i > 0 {
					mark = spaces(len(mark))
				}
				all[n] = append(all[n], mark+part)
			}
		}
		most = max(most, len(all[n]))
	}
	p.put(line{text: strings.TrimRight(names, " "), look: lookFaint, indent: 2, cut: true})
	for i := range most {
		text, l := "", lookField
		for n := range all {
			one := ""
			if i < len(all[n]) {
				one = all[n][i]
			}
			if strings.HasPrefix(one, changedMark) {
				l = lookChanged
			}
			text += fit(one, width) + "  "
		}
		p.put(line{text: strings.TrimRight(text, " "), look: l, indent: 2, cut: true})
	}
}

// cellLines returns the lines of a value as safe text. Of several, each has a mark.
func cellLines(c *view.Cell) (out []string) {
	switch {
	case c.None:
		return []string{"no value"}
	case c.Unknown:
		return []string{"not known"}
	case c.Secret:
		return []string{"secret, not shown"}
	}
	for n := range c.Lines {
		mark := ""
		if len(c.Lines) > 1 {
			mark = sameMark
			if c.Lines[n].Changed {
				mark = changedMark
			}
		}
		// A long value is one line of what it was cut to, or has many.
		out = append(out, mark+indented(c.Lines[n].Text))
	}
	if c.More > 0 {
		out = append(out, strconv.Itoa(c.More)+" bytes more")
	}
	return out
}

// indented returns a text as safe text that keeps its first spaces.
func indented(s string) string {
	text := strings.TrimLeft(s, " ")
	return strings.Repeat(" ", min(len(s)-len(text), 32)) + value(text)
}

// value is safe text of a value, as much of it as the view has.
func value(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		part := s[:min(len(s), maxText/2)]
		s = s[len(part):]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			part += s[:1]
			s = s[1:]
		}
		out.WriteString(safe(part))
	}
	return out.String()
}

// confirmPage returns the screen of an action before it is taken: what it does, what is written, and the difference. width is that of the terminal; 0 is for
// values one below the other.
func confirmPage(c *view.Confirmation, width int) []line {
	p := &sheet{}
	p.add(lookTitle, 0, c.Verb+": "+channel.Clip(c.About))
	if c.Problem != "" {
		p.add(lookBad, 0, c.Problem+". "+c.Why)
	}
	p.section("What it will do").all(lookPlain, 2, c.Effects)
	if x := c.Exception; x != nil {
		p.scopes(x)
		p.section("Written as you").add(lookPlain, 0, "With the name, the scope and the time that you choose:")
		for _, l := range strings.Split(strings.TrimRight(x.Policy, "\n"), "\n") {
			p.put(line{text: indented(l), look: lookField, indent: 2})
		}
	} else if len(c.Writes) > 0 {
		p.section("Written as you").all(lookField, 2, c.Writes)
	}
	if c.Change != nil {
		p.section("Difference").difference(&c.Change.Difference, width).all(lookBad, 0, c.Change.Decided)
	}
	return p.lines
}

// scopes adds the scopes of an exception, each with what else it would have let pass.
func (p *sheet) scopes(x *view.Exception) {
	p.section("Updates")
	for n := range x.Scopes {
		s := &x.Scopes[n]
		p.add(lookStrong, 0, s.Text)
		if len(s.Others) == 0 {
			p.add(lookFaint, 2, "No other change is known that it would have let pass.")
			continue
		}
		p.add(lookFaint, 2, "It would have let pass, too:").all(lookFaint, 4, s.Others)
		if s.More > 0 {
			p.add(lookFaint, 4, "and "+strconv.Itoa(s.More)+" more")
		}
	}
	p.add(lookBad, 0, x.Unknown)
}
