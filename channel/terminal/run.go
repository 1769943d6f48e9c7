package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/internal/pause"
)

// FieldManager of what is written in the terminal: votes have it as their via.
const FieldManager = "terminal"

// retryAfter is how long after an API server did not answer it is read again, before anything is known.
const retryAfter = 2 * time.Second

// Options of a terminal.
type Options struct {
	// Options of what the user sees; Manager, Command, Again and Early are the terminal's own.
	view.Options
	// Cluster is shown, as the name of a context.
	Cluster string
	// Open is an object that is shown first; nil for what waits.
	Open *v1alpha1.ObjectReference
	// Mouse: the wheel scrolls, and a click selects and opens; the terminal's own selection of text then takes its modifier key.
	Mouse bool
	// Width and Height of the terminal when it begins, in columns and rows.
	Width, Height int
	// In and Out are the terminal, Environ its environment.
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// complete completes options with what is the terminal's own.
func (o *Options) complete() {
	o.Manager, o.Expired, o.Again = FieldManager, view.KubeconfigExpired("kubectl kausality tui"), "It is read again by itself."
	if o.Now == nil {
		o.Now = clock.Now
	}
}

// Small is the error of a terminal of a size, in columns and rows; nil for one that is large enough.
func Small(width, height int) error {
	if width < MinWidth || height < minHeight {
		return fmt.Errorf("the terminal has %d columns and %d rows; it takes at least %d and %d: widen it, or use kubectl kausality tui --plain", width, height,
			MinWidth, minHeight)
	}
	return nil
}

// Run runs the terminal in full until the user quits, or ctx ends. Nothing of it is left then. The error is why what waits could not be listed at all.
func Run(ctx context.Context, o Options) error {
	o.complete()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var program *tea.Program
	send := func(msg tea.Msg) { program.Send(msg) }
	o.Early = func(s *view.Snapshot) { send(listed{snap: s}) }
	v, err := view.New(o.Options)
	if err != nil {
		return err
	}
	m := newModel(ctx, o, v)
	program = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ),
		tea.WithWindowSize(o.Width, o.Height))
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		m.feed(ctx, send)
	}()
	_, err = program.Run()
	cancel()
	<-fed
	m.jobs.Wait()
	switch {
	case m.ended != nil:
		return m.ended
	case err != nil && !errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, tea.ErrInterrupted):
		return fmt.Errorf("cannot show the terminal: %w", err)
	}
	return nil
}

// feed feeds the model with what waits until ctx ends: once it can be listed, whenever it has changed (KR-17-22).
func (m *model) feed(ctx context.Context, send func(tea.Msg)) {
	read := func() bool {
		reading, cancel := context.WithTimeout(ctx, view.ReadFor)
		defer cancel()
		snap, err := m.view.Pending(reading)
		if ctx.Err() == nil {
			send(listed{snap, err})
		}
		return snap != nil
	}
	for !read() {
		if !pause.For(ctx, retryAfter) {
			return
		}
	}
	m.view.Follow(ctx, func() bool { return false }, m.wake, func() { read() })
}
