package terminal

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// keyboard and mouse of a model.
type keyboard struct{ *model }

// key handles a key that was pressed.
func (m keyboard) key(k tea.KeyPressMsg) tea.Cmd {
	m.report("")
	s := m.top()
	switch name := k.String(); {
	case name == "ctrl+c":
		return tea.Quit
	case m.filtering != nil:
		m.filterKey(s, k)
		return nil
	case s.form != nil && s.state == nil:
		return m.formKey(s, k)
	case name == "q":
		return tea.Quit
	case moves(s.list, name):
		return nil
	default:
		return m.opens(s, name)
	}
}

// moves in a list by a key; it reports whether the key moves in lists.
func moves(l *list, name string) bool {
	switch name {
	case "j", "down":
		l.move(+1)
	case "k", "up":
		l.move(-1)
	case "space", " ", "pgdown", "ctrl+f", "ctrl+d":
		l.leap(+1)
	case "pgup", "ctrl+b", "ctrl+u":
		l.leap(-1)
	case "g", "home":
		l.first()
	case "G", "end":
		l.last()
	default:
		return false
	}
	return true
}

// opens another screen by a key, or leaves one.
func (m keyboard) opens(s *screen, name string) tea.Cmd {
	switch name {
	case "enter", "l", "right":
		return m.open(s.list.selected())
	case "esc", "h", "left", "backspace":
		return m.back()
	case "?":
		if s.kind == kindHelp {
			return m.back()
		}
		return m.open(&place{kind: kindHelp})
	case "c":
		if s.kind == kindCoverage {
			return nil
		}
		return m.open(&place{kind: kindCoverage})
	case "R":
		m.reread()
		return m.load(s)
	case "/":
		if s.filtered() {
			m.filtering = textOf("Filter", s.filter)
			m.filtering.text.Focus()
		}
		return nil
	}
	return m.open(s.confirms(name))
}

// filterKey is a key while the filter of a list is entered.
func (m keyboard) filterKey(s *screen, k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.filtering = nil
	case "esc":
		m.filtering, s.filter = nil, ""
	default:
		if !typed(k) {
			return
		}
		m.filter(s, k)
	}
	m.build(s)
}

// filter filters a list by what is entered, after a message about that.
func (m keyboard) filter(s *screen, msg tea.Msg) {
	*m.filtering.text, _ = m.filtering.text.Update(msg)
	s.filter = safe(strings.TrimSpace(m.filtering.text.Value()))
}

// formKey is a key while a confirmation is shown.
func (m keyboard) formKey(s *screen, k tea.KeyPressMsg) tea.Cmd {
	if s.form.update(k) {
		return nil
	}
	switch name := k.String(); name {
	case "tab":
		s.form.to(+1)
	case "shift+tab":
		s.form.to(-1)
	case "enter":
		return m.decide(s)
	case "esc":
		return m.back()
	case "down", "j":
		s.list.scroll(+1)
	case "up", "k":
		s.list.scroll(-1)
	case "pgdown", "space", " ":
		s.list.leap(+1)
	case "pgup":
		s.list.leap(-1)
	case "q":
		return tea.Quit
	}
	return nil
}

// paste pastes text into what is being entered.
func (m keyboard) paste(msg tea.PasteMsg) {
	msg.Content = safe(msg.Content)
	s := m.top()
	switch {
	case m.filtering != nil:
		m.filter(s, msg)
		m.build(s)
	case s.form != nil && s.state == nil:
		s.form.update(msg)
	}
}

// wheelRows that one step of the wheel scrolls.
const wheelRows = 3

// wheel scrolls.
func (m keyboard) wheel(at tea.Mouse) {
	switch at.Button {
	case tea.MouseWheelDown:
		m.top().list.scroll(+wheelRows)
	case tea.MouseWheelUp:
		m.top().list.scroll(-wheelRows)
	default:
	}
}

// click selects what can be opened, and opens what is selected.
func (m keyboard) click(at tea.Mouse) tea.Cmd {
	l := m.top().list
	rows, n := l.visible(), at.Y-headRows
	if at.Button != tea.MouseLeft || m.top().form != nil || n < 0 || n >= len(rows) || !l.selectable(rows[n].item) {
		return nil
	}
	if item := rows[n].item; item != l.cursor {
		l.mark(item)
		return nil
	}
	return m.open(l.selected())
}
