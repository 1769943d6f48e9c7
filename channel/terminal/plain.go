package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"
	"github.com/muesli/cancelreader"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
	"github.com/kausality-io/function-kausality/internal/pause"
)

const (
	// plainItems that are printed at a time.
	plainItems = 40
	// plainWidth is below that of columns: values are printed one below the other.
	plainWidth = columnsFrom - 1
	// maxAnswer in bytes.
	maxAnswer = 4096
)

// plain prints screens line by line, and prompts.
type plain struct {
	*model
	in *bufio.Reader

	// mu guards out, and changed: it was printed that what waits has changed.
	mu      sync.Mutex
	out     io.Writer
	failed  error
	changed bool

	// from is the item that is printed first; links are where the printed numbers lead.
	from  int
	links []*place
}

// Plain shows what Run shows line by line, without colours, frames, and an alternate screen: for screen readers, and for terminals that cannot do more. It
// ends with the user's q, with the end of the input, and with ctx. The error is why what waits could not be listed at all.
func Plain(ctx context.Context, o Options) error {
	o.complete()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v, err := view.New(o.Options)
	if err != nil {
		return err
	}
	in, err := cancelreader.NewReader(o.In)
	if err != nil {
		return fmt.Errorf("cannot read the terminal: %w", err)
	}
	defer in.Close() //nolint:errcheck // What it reads is the caller's.
	defer context.AfterFunc(ctx, func() { in.Cancel() })()
	p := &plain{model: newModel(ctx, o, v), in: bufio.NewReaderSize(in, maxAnswer), out: o.Out}
	p.width = plainWidth
	if err := p.begin(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		v.Follow(ctx, func() bool { return false }, p.wake, p.hasChanged)
	}()
	err = p.talk()
	cancel()
	<-ended
	if errors.Is(err, io.EOF) || errors.Is(err, cancelreader.ErrCanceled) {
		return nil
	}
	return err
}

// begin begins with what waits, once it can be listed.
func (p *plain) begin() error {
	p.print("Kausality: " + p.o.User + " on " + p.o.Cluster)
	for {
		p.refresh()
		switch {
		case p.ctx.Err() != nil, p.failed != nil:
			return p.failed
		case p.ended != nil:
			return p.ended
		case p.snap != nil:
			p.run(p.load(p.top()))
			return p.failed
		case p.awayWhy == nil:
			return nil // its context has ended meanwhile
		}
		p.print(p.awayWhy.Title + ". It is read again in a moment. " + p.awayWhy.Text)
		pause.For(p.ctx, retryAfter)
	}
}

// refresh refreshes what is known of what waits.
func (p *plain) refresh() {
	ctx, cancel := context.WithTimeout(p.ctx, view.ReadFor)
	defer cancel()
	snap, err := p.view.Pending(ctx)
	if p.ctx.Err() == nil {
		p.run(p.listed(listed{snap, err}))
	}
}

// run runs commands of the model, one after the other.
func (p *plain) run(cmd tea.Cmd) {
	for cmd != nil {
		msg := cmd()
		switch msg := msg.(type) {
		case loaded:
			cmd = p.loaded(&msg)
		case decided:
			cmd = p.decided(msg)
		default:
			return
		}
	}
}

// hasChanged prints once that what waits has changed since it was printed.
func (p *plain) hasChanged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.changed {
		p.changed = true
		p.write("\nWhat waits has changed. Enter shows what it is now.\n")
	}
}

// print prints a line of any text.
func (p *plain) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(safe(text) + "\n")
}

// write writes a text; mu is held. The first error ends it.
func (p *plain) write(text string) {
	if _, err := io.WriteString(p.out, text); err != nil && p.failed == nil {
		p.failed = fmt.Errorf("cannot write to the terminal: %w", err)
	}
}

// prompt prompts and reads an answer.
func (p *plain) prompt(text string) (string, error) {
	p.mu.Lock()
	p.write(safe(text) + ": ")
	err := p.failed
	p.mu.Unlock()
	if err != nil {
		return "", err
	}
	raw, err := p.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) { // more than any answer has: the rest of the line is left out
		answer := safe(string(raw))
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = p.in.ReadSlice('\n')
		}
		return answer, err
	}
	return strings.TrimSpace(safe(string(raw))), err
}

// talk talks with the user until they quit.
func (p *plain) talk() error {
	for {
		p.show()
		answer, err := p.prompt(p.question())
		if err != nil {
			return err
		}
		switch quit, err := p.answer(answer); {
		case err != nil:
			return err
		case quit:
			return nil
		}
	}
}

// show shows the screen that is open.
func (p *plain) show() {
	p.mu.Lock()
	p.changed = false
	p.mu.Unlock()
	p.refresh()
	s := p.top()
	p.print("")
	if p.notice != "" {
		p.print(p.notice)
		p.report("")
	}
	if p.awayWhy != nil {
		p.print(frame{p.model}.status() + ". " + p.awayWhy.Title + ". This is what it was before. " + safe(p.awayWhy.Text))
	}
	if s.kind == kindCauses && p.snap != nil {
		p.print("What waits: " + p.snap.Changes())
	}
	l := p.listOf(s)
	p.links = nil
	if p.from >= l.n {
		p.from = 0
	}
	to := min(p.from+plainItems, l.n)
	for n := p.from; n < to; n++ {
		for _, one := range l.item(n) {
			p.line(&one)
		}
	}
	if to < l.n || p.from > 0 {
		p.print(fmt.Sprintf("Items %d to %d of %d.", p.from+1, to, l.n))
	}
	for _, a := range s.actions() {
		p.print(actionKeys[a] + ": " + channel.Label(a))
	}
}

// line prints a line of a screen; what can be opened has a number.
func (p *plain) line(l *line) {
	text := spaces(l.indent) + l.text
	if l.to != nil {
		p.links = append(p.links, l.to)
		text = fmt.Sprintf("%s%d. %s", spaces(l.indent), len(p.links), l.text)
	}
	p.print(text)
}

// question returns the question for what to do next.
func (p *plain) question() string {
	out := "Enter reads again"
	if len(p.links) > 0 {
		out = "A number opens, " + out
	}
	if l := p.listOf(p.top()); l.n > plainItems {
		out += ", n and p next and previous items"
	}
	if len(p.screens) > 1 {
		out += ", b back"
	}
	return out + ", c coverage, q quit"
}

// answer handles what the user has entered.
func (p *plain) answer(text string) (quit bool, err error) {
	s := p.top()
	n, number := strconv.Atoi(text)
	switch {
	case text == "q":
		return true, nil
	case number == nil && n >= 1 && n <= len(p.links):
		p.enter(p.links[n-1])
	case text == "":
		p.run(p.load(s))
	case text == "n":
		p.from += plainItems
	case text == "p":
		p.from = max(p.from-plainItems, 0)
	case text == "b":
		p.from = 0
		p.run(p.back())
	case text == "c":
		p.enter(&place{kind: kindCoverage})
	case s.confirms(text) != nil:
		p.enter(s.confirms(text))
		return false, p.confirm(p.top())
	default:
		p.print("There is no " + text + " here.")
	}
	return false, nil
}

// enter enters a place from its beginning.
func (p *plain) enter(to *place) {
	p.from = 0
	p.run(p.open(to))
}

// confirm confirms an action: what it does is printed, what it needs is read, and it is taken if the user confirms it.
func (p *plain) confirm(s *screen) error {
	for s == p.top() && s.confirm != nil && s.state == nil {
		p.print("")
		for _, l := range confirmPage(s.confirm, 0) {
			p.line(&line{text: l.text, indent: l.indent})
		}
		for _, f := range s.form.fields {
			if err := p.fill(f); err != nil {
				return err
			}
		}
		answer, err := p.prompt("Type " + yes + " to go on: " + channel.Label(s.confirm.Action) + ". Enter cancels")
		if err != nil {
			return err
		}
		if answer != yes {
			p.report("Nothing was done.")
			p.run(p.back())
			return nil
		}
		p.run(p.decide(s))
	}
	return nil
}

// fill fills a field of a form.
func (p *plain) fill(f *field) error {
	if f.text != nil {
		answer, err := p.prompt(f.label + channel.Part(", Enter keeps ", safe(f.text.Value()), ""))
		if err == nil && answer != "" {
			f.text.SetValue(answer)
		}
		return err
	}
	for n, c := range f.choices {
		p.print(fmt.Sprintf("%d. %s", n+1, safe(c.Text)))
	}
	answer, err := p.prompt(f.label + ", a number; Enter takes " + strconv.Itoa(f.chosen+1))
	if n, is := strconv.Atoi(answer); is == nil && n >= 1 && n <= len(f.choices) {
		f.chosen = n - 1
	}
	return err
}
