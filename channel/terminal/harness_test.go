package terminal

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/channel/view/viewtest"
)

var update = flag.Bool("update", false, "write the screens in testdata")

// driver of a model: it types keys, and runs its commands one after the other.
type driver struct {
	t    *testing.T
	m    *model
	quit bool
}

// drive a terminal of a size that shows what an API server has.
func drive(t *testing.T, o view.Options, width, height int) *driver {
	t.Helper()
	all := Options{Options: o, Cluster: "prod"}
	all.complete()
	v, err := view.New(all.Options)
	require.NoError(t, err)
	d := &driver{t: t, m: newModel(t.Context(), all, v)}
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	d.list()
	return d
}

// list what waits, as feed does.
func (d *driver) list() {
	snap, err := d.m.view.Pending(d.t.Context())
	d.send(listed{snap, err})
}

// send a message, and run the commands that follow.
func (d *driver) send(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	d.run(cmd)
}

// run a command, and those that follow.
func (d *driver) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.QuitMsg:
		d.quit = true
	default:
		d.send(msg)
	}
}

// names of keys that have no character.
var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight, "tab": tea.KeyTab,
	"pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace,
}

// keys that are pressed, by their names.
func (d *driver) keys(names ...string) *driver {
	for _, name := range names {
		k := tea.Key{Text: name, Code: []rune(name)[0]}
		if code, ok := named[name]; ok {
			k = tea.Key{Code: code}
		}
		d.send(tea.KeyPressMsg(k))
	}
	return d
}

// typed text, a key for each character.
func (d *driver) typed(text string) *driver {
	for _, r := range text {
		d.send(tea.KeyPressMsg(tea.Key{Text: string(r), Code: r}))
	}
	return d
}

// screen is what the terminal shows as text. It fits.
func (d *driver) screen() string {
	d.t.Helper()
	rows := strings.Split(ansi.Strip(d.m.View().Content), "\n")
	assert.LessOrEqual(d.t, len(rows), d.m.height)
	for n, r := range rows {
		assert.LessOrEqual(d.t, ansi.StringWidth(r), d.m.width, r)
		rows[n] = strings.TrimRight(r, " ")
	}
	return strings.Join(rows, "\n") + "\n"
}

// shows that the screen has some texts, in their order.
func (d *driver) shows(want ...string) *driver {
	d.t.Helper()
	inOrder(d.t, d.screen(), want...)
	return d
}

// inOrder checks that a text has others in their order, wherever its lines are wrapped.
func inOrder(t *testing.T, text string, want ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(text), " ")
	for _, w := range want {
		_, after, ok := strings.Cut(rest, strings.Join(strings.Fields(w), " "))
		if !ok {
			assert.Fail(t, "it does not show "+w, text)
			return
		}
		rest = after
	}
}

// golden compares a text with testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, name)
}

// waiting is a change with votes, a rejection to come, and values of several lines.
func waiting(d *v1alpha1.Drift) {
	at := viewtest.Morning
	d.Status.Votes = []v1alpha1.Vote{{User: "anna@example.com", Via: "slack"}}
	d.Status.Votes[0].At.Time = at
	d.Status.Lacks = "1 of 2 approvals; needs 1 more of group dba"
	d.Spec.Difference = append(d.Spec.Difference, v1alpha1.FieldDifference{Path: "spec.tags", Verb: "Mutate", Old: `{"a":1,"b":2}`, New: `{"a":1,"b":3}`})
}
