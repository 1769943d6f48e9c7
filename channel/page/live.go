package page

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kausality-io/function-kausality/admission/clock"
)

const (
	// lingerFor is how long watches go on without an open page: the next page begins when the last one is left.
	lingerFor = 30 * time.Second
	// beatEvery is how often an open page is loaded again for what no watch reports, such as gates and ages.
	beatEvery = 10 * time.Second
	// maxStreams that are open at a time, below the six connections that browsers have to a server; further pages are not live.
	maxStreams = 4
	// writeFor bounds the write of one event.
	writeFor = 10 * time.Second
	// liveHeader marks requests that no user has made, which keep no session.
	liveHeader = "Kausality-Live"
	// eventStream is the content type of a stream of events.
	eventStream = "text/event-stream"
)

// Unseen reports whether a request was made by an open page, and not by its user.
func Unseen(r *http.Request) bool {
	return r.Header.Get(liveHeader) != "" || r.Header.Get("Accept") == eventStream
}

// streams to the open pages, each of which is signalled when what waits has changed (KR-17-18).
type streams struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
	// left is when the last one was closed.
	left time.Time
	// opened has a value once the first one was opened; ended is closed with the page.
	opened chan struct{}
	ended  chan struct{}
}

func newStreams() *streams {
	return &streams{open: map[chan struct{}]bool{}, opened: make(chan struct{}, 1), ended: make(chan struct{})}
}

// join returns the signals of a new stream; nil where there are too many.
func (s *streams) join() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxStreams {
		return nil
	}
	c := make(chan struct{}, 1)
	s.open[c] = true
	select {
	case s.opened <- struct{}{}:
	default: // it is known
	}
	return c
}

// leave leaves a stream.
func (s *streams) leave(c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.left = clock.Now()
}

// idle reports whether no page has been open for some time.
func (s *streams) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) == 0 && clock.Since(s.left) > lingerFor
}

// signal signals all streams.
func (s *streams) signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		select {
		case c <- struct{}{}:
		default: // it has one already
		}
	}
}

// Run keeps open pages live until ctx ends, and ends their streams then. Nothing is watched while no page is open.
func (p *Page) Run(ctx context.Context) {
	defer close(p.streams.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.streams.opened:
			p.view.Follow(ctx, p.streams.idle, p.streams.opened, p.streams.signal)
		}
	}
}

// events sends events to an open page: that what waits has changed, and a beat. The page loads itself then.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	session, signals := sessionOf(r), p.streams.join()
	if signals == nil {
		http.Error(w, "Too many pages are open; this one is not live.", http.StatusServiceUnavailable)
		return
	}
	defer p.streams.leave(signals)
	w.Header().Set("Content-Type", eventStream)
	out := http.NewResponseController(w)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for event := "open"; ; {
		if err := out.SetWriteDeadline(clock.Local().Add(writeFor)); err != nil {
			return // a server without deadlines does not serve this page
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata:\n\n", event); err != nil || out.Flush() != nil {
			return // the browser is gone
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.streams.ended:
			return
		case <-session.Ended():
			return
		case <-signals:
			event = "change"
		case <-beat.C:
			event = "beat"
		}
	}
}
