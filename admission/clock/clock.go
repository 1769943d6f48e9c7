package clock

import (
	"sync"
	"time"
)

const (
	// resolution of a Date: whole seconds, rounded down.
	resolution = time.Second
	// drift is how far two clocks may move apart in a given time, 1/drift of it, until they are compared again.
	drift = 2000
)

// bounds of how far the API server's time is ahead of this process's, and when they were found.
type bounds struct {
	low, high time.Duration
	at        time.Time
}

// process is the clock of this process.
type process struct {
	mu sync.RWMutex
	// origin of the time of this process. It goes on with the monotonic clock, so that a machine whose clock is set
	// does not move it.
	origin time.Time
	known  bool
	bounds bounds
}

var here = &process{origin: local()}

// Now returns the time of the API server. It is safe for concurrent use.
func Now() time.Time { return here.now() }

// Since returns the time that has passed since a time by Now.
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Skew returns how far the API server's clock is ahead of this machine's, negative if it is behind; known is false
// before the first answer of an API server.
func Skew() (skew time.Duration, known bool) { return here.skew() }

// Observe records an answer of the API server: the Date that it has, and the times by Local when its request was sent
// and when the answer arrived. Answers that took long show little, and do no harm.
func Observe(date, sent, received time.Time) { here.observe(date, sent, received) }

// Local returns the time of this process, for Observe.
func Local() time.Time { return here.local() }

func (p *process) local() time.Time { return p.origin.Add(local().Sub(p.origin)) }

func (p *process) now() time.Time {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.known {
		return local()
	}
	return p.local().Add(p.bounds.offset())
}

func (p *process) skew() (time.Duration, bool) {
	now, machine := p.now(), local().Round(0) // which has no monotonic clock then
	p.mu.RLock()
	defer p.mu.RUnlock()
	return now.Round(0).Sub(machine), p.known
}

// offset returns an offset within bounds. It is 0 where that is possible, so that clocks which agree stay as they
// are.
func (b bounds) offset() time.Duration {
	if b.low <= 0 && b.high >= 0 {
		return 0
	}
	return b.low + (b.high-b.low)/2
}

// observe records an answer. Between the sending and the arrival the API server's clock showed a time from date until
// a second later. The offset is bounded by the intersection of all answers. An answer that contradicts the others
// shows that a clock was set, or that another API server answers, and counts alone.
func (p *process) observe(date, sent, received time.Time) {
	next := bounds{low: date.Sub(received), high: date.Add(resolution).Sub(sent), at: received}
	if next.low > next.high {
		return // received before it was sent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		wider := max(0, received.Sub(p.bounds.at)) / drift
		both := bounds{low: max(next.low, p.bounds.low-wider), high: min(next.high, p.bounds.high+wider), at: received}
		if both.low <= both.high {
			next = both
		}
	}
	p.bounds, p.known = next, true
}
