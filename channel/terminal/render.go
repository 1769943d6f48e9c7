package terminal

import (
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kausality-io/function-kausality/channel"
)

// headRows are above what is shown: who looks, what at, and what became of it.
const headRows = 3

// styles of looks. Terminals without colours show them by weight, or not at all.
var styles = [...]lipgloss.Style{
	lookPlain:   lipgloss.NewStyle(),
	lookTitle:   lipgloss.NewStyle().Bold(true),
	lookStrong:  lipgloss.NewStyle().Foreground(lipgloss.Cyan),
	lookFaint:   lipgloss.NewStyle().Faint(true),
	lookField:   lipgloss.NewStyle(),
	lookChanged: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	lookGood:    lipgloss.NewStyle().Foreground(lipgloss.Green),
	lookBad:     lipgloss.NewStyle().Foreground(lipgloss.Red),
}

// selectedStyle of what is selected, which has the marker, too.
var selectedStyle = lipgloss.NewStyle().Bold(true).Underline(true)

// View implements tea.Model.
func (m *model) View() tea.View {
	rows, cursor := frame{m}.rows()
	for n := range rows {
		rows[n] = ansi.Truncate(rows[n], m.width, "")
	}
	v := tea.NewView(strings.Join(rows, "\n"))
	v.AltScreen, v.WindowTitle, v.Cursor = true, "Kausality", cursor
	if m.o.Mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}

// frame is what is around a list, and the list.
type frame struct{ *model }

// rows returns the rows of the whole terminal, and the cursor in what is being entered.
func (m frame) rows() ([]string, *tea.Cursor) {
	if err := Small(m.width, m.height); err != nil {
		return []string{safe(err.Error())}, nil
	}
	s := m.top()
	if s.list == nil {
		m.build(s)
	}
	out := []string{m.head(), m.title(s), m.note(s)}
	s.list.size(m.width, m.body(s))
	for _, r := range s.list.visible() {
		out = append(out, m.styled(s, &r))
	}
	foot, x, y := m.foot(s)
	for len(out) < m.height-len(foot) {
		out = append(out, "")
	}
	var at *tea.Cursor
	if y >= 0 {
		at = tea.NewCursor(x, len(out)+y)
		at.Blink = false
	}
	return append(out, foot...), at
}

// styled row of a list, with the marker of what is selected.
func (m frame) styled(s *screen, r *row) string {
	mark, style := noMarker, styles[r.look]
	if r.open && r.item == s.list.cursor && s.form == nil {
		mark = marker
		if r.look != lookFaint {
			style = selectedStyle
		}
	}
	if r.text == "" {
		return ""
	}
	indent := len(r.text) - len(strings.TrimLeft(r.text, " "))
	return mark + r.text[:indent] + style.Render(r.text[indent:])
}

// body returns how many rows a list has.
func (m *model) body(s *screen) int {
	foot, _, _ := frame{m}.foot(s)
	return max(m.height-headRows-len(foot), 1)
}

// head returns who looks at which cluster, and whether what is shown is live.
func (m frame) head() string {
	right := safe(m.status())
	left := fit(safe("Kausality: "+m.o.User+" on "+m.o.Cluster), m.width-ansi.StringWidth(right)-1)
	return styles[lookTitle].Render(left) + " " + right
}

// status returns the status of what is shown.
func (m frame) status() string {
	switch {
	case !m.away.IsZero() && m.awayWhy != nil && ends(m.awayWhy):
		return "not read since " + m.away.UTC().Format("15:04:05Z") + ", retrying"
	case !m.away.IsZero():
		return "not connected since " + m.away.UTC().Format("15:04:05Z") + ", retrying"
	case m.snap == nil:
		return "reading"
	case m.view.Synced():
		return "live"
	}
	return "read every few seconds"
}

// title returns the title of a screen: where it is below the first.
func (m frame) title(s *screen) string {
	text := "What waits"
	if m.snap != nil && len(m.snap.Causes) > 0 {
		wait := " wait for a decision"
		if m.snap.Total == 1 {
			wait = " waits for a decision"
		}
		text += ": " + m.snap.Changes() + wait
	}
	if s.kind == kindCauses {
		return styles[lookTitle].Render(ansi.Truncate(text, m.width, "…"))
	}
	names := map[kind]string{kindCause: "Cause", kindChange: "Change", kindObject: "Object", kindCoverage: "Coverage", kindHelp: "Help"}
	name := names[s.kind]
	if s.kind == kindConfirm {
		name = channel.Label(s.action)
	}
	return styles[lookTitle].Render(ansi.Truncate("What waits > "+name, m.width, "…"))
}

// note returns what has just been done, or why something cannot be read.
func (m frame) note(s *screen) string {
	switch {
	case m.notice != "":
		return styles[lookGood].Render(ansi.Truncate(m.notice, m.width, "…"))
	case m.awayWhy != nil:
		return styles[lookBad].Render(ansi.Truncate(safe(m.awayWhy.Title+". This is what it was before. "+m.awayWhy.Text), m.width, "…"))
	case s.filter != "":
		return ansi.Truncate("Filter: "+s.filter, m.width, "…")
	}
	return ""
}

// foot returns the rows below a list: what can be done, and where text is entered.
func (m frame) foot(s *screen) (out []string, x, y int) {
	y = -1
	var keys string
	switch {
	case m.filtering != nil:
		m.filtering.text.SetWidth(max(m.width-12, 4))
		out, y = append(out, "", "Filter: "+m.filtering.text.View()), 1
		if c := m.filtering.text.Cursor(); c != nil {
			x = len("Filter: ") + c.X
		}
		keys = "Enter keep  Esc all"
	case s.form != nil && s.state == nil:
		var rows []row
		rows, x, y = s.form.lines(m.width)
		out = append(out, "")
		if y >= 0 {
			y++
		}
		for n := range rows {
			out = append(out, styles[rows[n].look].Render(rows[n].text))
		}
		keys = formKeys(s.form, channel.Label(s.action))
	default:
		out = append(append(out, ""), m.actionRows(s)...)
		keys = "q quit  ? help  Enter open  Esc back  / filter  c coverage"
	}
	return append(out, styles[lookFaint].Render(ansi.Truncate(keys, m.width, "…"))), x, y
}

// formKeys returns the keys of a form.
func formKeys(f *form, verb string) string {
	if f.sent {
		return "Being written…"
	}
	keys := "Enter " + verb + "  Esc cancel"
	if len(f.fields) > 1 {
		keys += "  Tab next field"
	}
	if now := f.current(); now != nil && now.text == nil {
		keys += "  left, right choose"
	}
	return keys + "  arrows scroll"
}

// actionRows returns the actions of a screen with their keys, in their order.
func (m frame) actionRows(s *screen) (out []string) {
	row := ""
	for _, a := range s.actions() {
		one := "[" + actionKeys[a] + "] " + channel.Label(a)
		switch {
		case row == "":
			row = one
		case len(row)+2+len(one) <= m.width:
			row += "  " + one
		default:
			out, row = append(out, row), one
		}
	}
	return append(out, row)
}
