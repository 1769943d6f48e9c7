package terminal

import (
	"context"
	"net/http"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kausality-io/function-kausality/channel/view"
)

const (
	// MinWidth of a terminal in columns, and minHeight in rows.
	MinWidth  = 40
	minHeight = 10
	// beatEvery is how often an open screen is read again for what no watch reports, such as gates and ages.
	beatEvery = 10 * time.Second
	// maxDepth of screens that lead back to each other.
	maxDepth = 32
)

// Messages to the model.
type (
	// listed is what waits, or why it could not be listed.
	listed struct {
		snap *view.Snapshot
		err  error
	}
	// loaded is what was read of a screen.
	loaded struct {
		on *screen
		screen
		err error
	}
	// decided is what became of a confirmation.
	decided struct {
		on    *screen
		done  string
		again *view.Confirmation
		err   error
	}
	// beat is that some time has passed.
	beat struct{}
)

// model of the terminal.
type model struct {
	o    Options
	view *view.View
	now  func() time.Time
	// ctx ends with the program; jobs are its reads.
	ctx  context.Context //nolint:containedctx // Commands of Bubble Tea have no context of their own.
	jobs sync.WaitGroup
	// wake is signalled where what waits is to be read again.
	wake chan struct{}

	width, height int
	// screens, the last of which is shown.
	screens []*screen
	snap    *view.Snapshot
	// away is since when what waits cannot be read, and why that is; zero while it can.
	away    time.Time
	awayWhy *view.State
	// notice is shown until the next key.
	notice string
	// filtering: the filter is being entered.
	filtering *field
	// ended is the error that ended it; nil for none.
	ended error
}

// newModel returns the model of a terminal that shows what waits, or an object.
func newModel(ctx context.Context, o Options, v *view.View) *model {
	m := &model{o: o, view: v, now: o.Now, ctx: ctx, wake: make(chan struct{}, 1), width: 80, height: 24}
	m.screens = []*screen{{place: place{kind: kindCauses}}}
	if o.Open != nil {
		m.screens = append(m.screens, &screen{place: *toObject(*o.Open)})
	}
	return m
}

// top returns the screen that is shown.
func (m *model) top() *screen { return m.screens[len(m.screens)-1] }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	m.build(m.top())
	return tea.Batch(m.load(m.top()), beats())
}

// beats returns the command that sends the next beat.
func beats() tea.Cmd {
	return tea.Tick(beatEvery, func(time.Time) tea.Msg { return beat{} })
}

// beat shows ages as they are now, and what no watch reports. What waits is as it is known: nothing holds what was known before.
func (m *model) beat() tea.Cmd {
	m.build(m.top())
	known := m.job(func(ctx context.Context) tea.Msg {
		snap, err := m.view.Pending(ctx)
		return listed{snap, err}
	})
	if m.snap == nil { // feed lists it
		known = nil
	}
	if !m.top().live() {
		return tea.Batch(beats(), known)
	}
	return tea.Batch(beats(), known, m.load(m.top()))
}

// job returns a command that ends with the program, and is waited for then.
func (m *model) job(do func(ctx context.Context) tea.Msg) tea.Cmd {
	return func() tea.Msg {
		if m.ctx.Err() != nil {
			return nil
		}
		m.jobs.Add(1)
		defer m.jobs.Done()
		ctx, cancel := context.WithTimeout(m.ctx, view.ReadFor)
		defer cancel()
		return do(ctx)
	}
}

// load loads what a screen shows, once at a time.
func (m *model) load(s *screen) tea.Cmd {
	if !s.needs() || s.kind == kindConfirm && s.confirm != nil {
		return nil
	}
	if s.reading {
		s.again = true
		return nil
	}
	s.reading = true
	at := s.place
	return m.job(func(ctx context.Context) tea.Msg {
		out := loaded{on: s}
		switch {
		case at.kind == kindChange:
			out.change, out.err = m.view.Change(ctx, at.namespace, at.id)
		case at.kind == kindObject:
			out.object, out.err = m.view.Object(ctx, at.ref)
		case at.kind == kindCoverage:
			out.coverage, out.err = m.view.Coverage(ctx)
		case at.id != "":
			out.confirm, out.err = m.view.Confirm(ctx, at.namespace, at.id, at.action)
		default:
			out.confirm, out.err = m.view.ConfirmFreeze(ctx, at.ref, at.action)
		}
		return out
	})
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.build(m.top())
	case listed:
		return m, m.listed(msg)
	case loaded:
		return m, m.loaded(&msg)
	case decided:
		return m, m.decided(msg)
	case beat:
		return m, m.beat()
	case tea.KeyPressMsg:
		return m, keyboard{m}.key(msg)
	case tea.PasteMsg:
		keyboard{m}.paste(msg)
	case tea.MouseWheelMsg:
		keyboard{m}.wheel(msg.Mouse())
	case tea.MouseClickMsg:
		return m, keyboard{m}.click(msg.Mouse())
	}
	return m, nil
}

// listed shows what waits, and why that is not known.
func (m *model) listed(msg listed) tea.Cmd {
	changed := false
	switch {
	case msg.snap == nil && msg.err != nil && m.snap == nil && ends(m.view.StateOf(msg.err)):
		m.ended = msg.err
		return tea.Quit
	case msg.snap != nil:
		changed = m.snap != nil && m.snap.Sum != msg.snap.Sum
		m.snap = msg.snap
	}
	if msg.err == nil {
		m.away, m.awayWhy = time.Time{}, nil
	} else {
		m.awayWhy = m.view.StateOf(msg.err)
		if m.away.IsZero() {
			m.away = m.now()
		}
	}
	top := m.top()
	m.build(top)
	if changed && top.live() {
		return m.load(top)
	}
	return nil
}

// ends reports whether a state will not become another one by itself.
func ends(s *view.State) bool {
	return s.Status != http.StatusServiceUnavailable
}

// loaded shows what was read of a screen. Where the API server does not answer, what was read before is still shown.
func (m *model) loaded(msg *loaded) tea.Cmd {
	s := msg.on
	s.reading = false
	if msg.err != nil {
		state := m.view.StateOf(msg.err)
		if s.list == nil || ends(state) || !s.known() {
			s.state = state
		}
	} else {
		s.state, s.change, s.object, s.coverage = nil, msg.change, msg.object, msg.coverage
		if s.confirm == nil && msg.confirm != nil {
			s.confirm, s.form = msg.confirm, formOf(msg.confirm)
		}
	}
	if s == m.top() {
		m.build(s)
	}
	if s.again {
		s.again = false
		return m.load(s)
	}
	return nil
}

// known reports whether something was read of a screen.
func (s *screen) known() bool {
	return s.change != nil || s.object != nil || s.coverage != nil || s.confirm != nil
}

// decide decides what was entered about a confirmation (KR-17-23).
func (m *model) decide(s *screen) tea.Cmd {
	if s.form == nil || s.form.sent || s.confirm == nil {
		return nil
	}
	s.form.sent = true
	at, entered := s.place, s.form.entered(s.confirm)
	return m.job(func(ctx context.Context) tea.Msg {
		out := decided{on: s}
		if at.id != "" {
			out.done, out.again, out.err = m.view.Decide(ctx, at.namespace, at.id, entered)
		} else {
			out.done, out.again, out.err = m.view.DecideFreeze(ctx, at.ref, entered)
		}
		return out
	})
}

// decided shows what became of a confirmation: what was done, or the confirmation of what it is now, with what was entered.
func (m *model) decided(msg decided) tea.Cmd {
	s := msg.on
	s.form.sent = false
	m.reread()
	switch {
	case msg.err != nil:
		state := m.view.StateOf(msg.err)
		if !state.Kept {
			s.state = state
			break
		}
		s.confirm.Problem, s.confirm.Why = state.Title, state.Text
	case msg.again != nil:
		s.confirm, s.form = msg.again, formOf(msg.again)
	default:
		m.report(msg.done)
		if s == m.top() {
			return m.back()
		}
		return nil
	}
	if s != m.top() { // the user did not wait for it
		if s.state != nil {
			m.report(s.state.Title + ". " + s.state.Text)
		} else {
			m.report(s.confirm.Problem + ". " + s.confirm.Why)
		}
		return nil
	}
	s.list = nil // from the beginning, where it has why
	m.build(s)
	return nil
}

// reread signals that what waits is to be read again.
func (m *model) reread() {
	select {
	case m.wake <- struct{}{}:
	default: // it is signalled already
	}
}

// report shows what was done, until the next key; empty for nothing.
func (m *model) report(text string) { m.notice = safe(text) }

// open opens a place on top of the others.
func (m *model) open(to *place) tea.Cmd {
	if to == nil {
		return nil
	}
	if len(m.screens) >= maxDepth {
		m.screens = append(m.screens[:1], m.screens[2:]...)
	}
	s := &screen{place: *to}
	m.screens = append(m.screens, s)
	m.build(s)
	return m.load(s)
}

// back returns to the screen before, which is read again.
func (m *model) back() tea.Cmd {
	if len(m.screens) == 1 {
		return nil
	}
	m.screens = m.screens[:len(m.screens)-1]
	m.build(m.top())
	return m.load(m.top())
}
