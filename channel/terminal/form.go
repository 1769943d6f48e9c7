package terminal

import (
	"slices"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/internal/lists"
)

// yes is typed to confirm that something is deleted or replaced.
const yes = "yes"

// maxEntered characters of a text field.
const maxEntered = 1000

// field of a form.
type field struct {
	label string
	// text that is entered; nil for a choice.
	text *textinput.Model
	// choices, of which one is chosen.
	choices []view.Choice
	chosen  int
}

// form of a confirmation.
type form struct {
	fields []*field
	// These are among the fields; nil for none.
	scope, until, reason, opened *field
	focus                        int
	// sent: it is being worked off.
	sent bool
}

// formOf returns the form of a confirmation, with what was entered before it.
func formOf(c *view.Confirmation) *form {
	f := &form{}
	add := func(one *field) *field {
		f.fields = append(f.fields, one)
		return one
	}
	if c.Exception != nil {
		f.scope = add(chosenOf("Updates", lists.Map(c.Scopes, func(s view.Scope) view.Choice { return s.Choice })))
	}
	if c.NeedsTime() {
		f.until = add(chosenOf("Until when", c.Snoozes))
	}
	if c.NeedsReason() {
		f.reason = add(textOf("Reason", c.Reason))
	}
	if c.Destroys() {
		f.opened = add(textOf("I have read that it deletes or replaces the object, or what is behind it. Type "+yes, ""))
	}
	f.to(0)
	return f
}

// chosenOf returns a field with choices.
func chosenOf(label string, choices []view.Choice) *field {
	out := &field{label: label, choices: choices}
	for n := range choices {
		if choices[n].Checked {
			out.chosen = n
		}
	}
	return out
}

// textOf returns the text of a field with a value.
func textOf(label, value string) *field {
	in := textinput.New()
	in.Prompt, in.CharLimit = "", maxEntered
	in.SetStyles(textinput.Styles{})
	in.SetVirtualCursor(false)
	in.SetValue(value)
	return &field{label: label, text: &in}
}

// current field; nil for none.
func (f *form) current() *field {
	if len(f.fields) == 0 {
		return nil
	}
	return f.fields[f.focus]
}

// to another field.
func (f *form) to(step int) {
	if len(f.fields) == 0 {
		return
	}
	f.focus = (f.focus + step + len(f.fields)) % len(f.fields)
	for n, one := range f.fields {
		if one.text == nil {
			continue
		}
		one.text.Blur()
		if n == f.focus {
			one.text.Focus() // its cursor is the terminal's own, which needs no command
		}
	}
}

// update updates the current field by a message; it reports whether that was for it.
func (f *form) update(msg tea.Msg) bool {
	now := f.current()
	if now == nil {
		return false
	}
	if now.text != nil {
		if key, is := msg.(tea.KeyPressMsg); is && !typed(key) {
			return false
		}
		*now.text, _ = now.text.Update(msg) // the command is of a cursor that blinks by itself
		return true
	}
	key, is := msg.(tea.KeyPressMsg)
	if !is {
		return false
	}
	switch s := key.String(); {
	case s == "left" || s == "h":
		now.chosen = max(now.chosen-1, 0)
	case s == "right" || s == "l":
		now.chosen = min(now.chosen+1, len(now.choices)-1)
	case len(s) == 1 && s[0] >= '1' && int(s[0]-'1') < len(now.choices):
		now.chosen = int(s[0] - '1')
	default:
		return false
	}
	return true
}

// typed reports whether a key is for a text field.
func typed(key tea.KeyPressMsg) bool {
	return !slices.Contains([]string{"up", "down", "pgup", "pgdown", "tab", "shift+tab", "enter", "esc", "ctrl+c"}, key.String())
}

// entered returns what was entered, of a confirmation.
func (f *form) entered(c *view.Confirmation) view.Form {
	out := view.Form{Action: c.Action, Shown: c.Shown}
	if f.reason != nil {
		out.Reason = f.reason.text.Value()
	}
	if f.until != nil && len(f.until.choices) > 0 {
		out.Until = f.until.choices[f.until.chosen].Name
	}
	if f.scope != nil && c.Exception != nil && len(f.scope.choices) > 0 {
		out.Scope, out.At = f.scope.choices[f.scope.chosen].Name, c.At
	}
	out.Opened = f.opened != nil && f.opened.text.Value() == yes
	return out
}

// lines returns the lines of a form for a width, and where the cursor is in them; y is negative for no cursor.
func (f *form) lines(width int) (out []row, x, y int) {
	y = -1
	for n, one := range f.fields {
		mark := noMarker
		if n == f.focus {
			mark = marker
		}
		if one.text == nil {
			out = append(out, row{text: mark + one.label + ":", look: lookTitle})
			for i, c := range one.choices {
				at := "  "
				if i == one.chosen {
					at = "* "
				}
				out = append(out, row{text: fit("    "+at+safe(c.Text), width), look: lookPlain})
			}
			continue
		}
		for _, text := range wrap(mark+one.label+":", width) {
			out = append(out, row{text: text, look: lookTitle})
		}
		one.text.SetWidth(max(width-6, 4))
		if n == f.focus {
			y = len(out)
			if c := one.text.Cursor(); c != nil {
				x = 4 + c.X
			}
		}
		out = append(out, row{text: "    " + one.text.View()})
	}
	return out, x, y
}
