package page

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/admission/clock"
)

const (
	// gatherFor is how long changes are gathered before what waits is read again.
	gatherFor = 100 * time.Millisecond
	// restPart of the time that this took is how long it then rests at least: it takes at most two thirds of a core.
	restPart = 2
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

// leave a stream.
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

// signal all streams.
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
			p.follow(ctx)
		}
	}
}

// follow the cluster while a page is open: what waits is read again once a watch has reported something, and every few seconds for what none does.
func (p *Page) follow(ctx context.Context) {
	r := p.reader
	defer r.lister.watches.end()
	defer r.live.Store(false)
	tick := time.NewTicker(freshFor)
	defer tick.Stop()
	r.begin(ctx)
	signalled := uint64(0)
	if have := r.have.Load(); have != nil {
		signalled = have.sum
	}
	for !p.streams.idle() {
		began := clock.Now()
		if sum := r.refreshed(ctx); sum != signalled { // also where another request has read it meanwhile
			signalled = sum
			p.streams.signal()
		}
		if !pause(ctx, gatherFor+clock.Since(began)/restPart) {
			return
		}
		select {
		case <-r.lister.watches.changed: // gathered while it rested
			continue
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-r.lister.watches.changed:
			if !pause(ctx, gatherFor) {
				return
			}
		case <-tick.C:
		case <-p.streams.opened: // another page
		}
	}
}

// pause for some time; not ok where ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// begin to watch before what waits is read again, where it is known which Namespaces the user may list: it is not listed twice then.
func (r *reader) begin(ctx context.Context) {
	if have := r.have.Load(); have == nil || have.away != nil {
		return
	}
	r.mu.Lock()
	err := r.watch(ctx)
	r.mu.Unlock()
	if err == nil { // else it is read, and why is shown
		r.lister.watches.begun(ctx)
	}
}

// watch what the user may list. mu is held.
func (r *reader) watch(ctx context.Context) error {
	spaces := r.lister.spaces
	if spaces == nil {
		spaces = []string{metav1.NamespaceAll}
	}
	return r.lister.watches.watch(ctx, spaces)
}

// refreshed reads what waits again, and returns the sum of what is shown from then on; zero where nothing is known.
func (r *reader) refreshed(ctx context.Context) uint64 {
	reading, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.again(reading)
	if s == nil {
		return 0 // the page shows why
	}
	r.live.Store(true)
	if err == nil {
		if err := r.watch(ctx); err != nil {
			s.unread = append(s.unread, "It is read every few seconds: "+err.Error())
		}
	}
	return s.sum
}

// events are sent to an open page: that what waits has changed, and a beat. The page loads itself then.
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
			return // a server without deadlines is none of this page
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata:\n\n", event); err != nil || out.Flush() != nil {
			return // the browser is gone
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.streams.ended:
			return
		case <-session.ended:
			return
		case <-signals:
			event = "change"
		case <-beat.C:
			event = "beat"
		}
	}
}
