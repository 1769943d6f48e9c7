package parts

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// How often a progress line is renewed, and how long a build takes at least to get one.
const (
	everyTTY   = time.Second
	everyOther = 30 * time.Second
	quiet      = time.Second
)

// A progress shows how long a build has been running: on a terminal in one line that it renews every
// second, elsewhere by a line at the start, every 30 seconds and at the end. A build of less than a
// second leaves no line.
type progress struct {
	out         io.Writer
	tty         bool
	label, hint string
	start       time.Time
	stop, ended chan struct{}
}

// startProgress begins to show the build of label, which takes about cold (0: unknown) if nothing
// is cached.
func startProgress(out io.Writer, label string, cold time.Duration) *progress {
	p := &progress{
		out: out, tty: isTerminal(out), label: label,
		start: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	if cold > 0 {
		p.hint = fmt.Sprintf(" (about %s with a cold cache)", cold)
	}

	go p.run()

	return p
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (p *progress) run() {
	defer close(p.ended)

	every := everyOther
	if p.tty {
		every = everyTTY
	}

	next := time.NewTimer(quiet)
	defer next.Stop()

	for first := true; ; first = false {
		select {
		case <-p.stop:
			return
		case <-next.C:
			p.show(first)
			next.Reset(every)
		}
	}
}

// show prints the state of a build that is running.
func (p *progress) show(first bool) {
	switch {
	case p.tty:
		p.printf("\r\x1b[Kbuilding %s: %s%s", p.label, p.elapsed(), p.hint)
	case first:
		p.printf("building %s%s\n", p.label, p.hint)
	default:
		p.printf("building %s: %s\n", p.label, p.elapsed())
	}
}

// done ends the line of a build that made a program.
func (p *progress) done() { p.end("built %s in %s\n") }

// fail ends the line of a build that did not. The error reports the rest.
func (p *progress) fail() { p.end("gave up on %s after %s\n") }

func (p *progress) end(format string) {
	close(p.stop)
	<-p.ended

	if time.Since(p.start) < quiet {
		return
	}

	if p.tty {
		p.printf("\r\x1b[K")
	}

	p.printf(format, p.label, p.elapsed())
}

func (p *progress) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

func (p *progress) elapsed() time.Duration { return time.Since(p.start).Round(time.Second / 10) }
