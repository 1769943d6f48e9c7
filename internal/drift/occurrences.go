package drift

import (
	"time"

	"github.com/kausality-io/function-kausality/admission/clock"
)

// occurrences of a drift since it was last written: when that was, zero for never, and
// how many there were since. Reporter.mu guards both.
type occurrences struct {
	written time.Time
	count   int64
	seen    seen
}

// seen is how a drift was last seen. Where that changes, it is written at once: whether a Drift is over depends on it (KR-05-65).
type seen struct {
	intent    int64
	separated bool
	lacks     string
	// cause has the revision of the graph, after which what is not seen again is over (KR-18-06).
	cause string
}

func (i Item) seen() seen {
	return seen{i.Report.Drift.Intent, i.Report.Separated, i.Report.Lacks, i.Report.Drift.Cause}
}

// due counts an occurrence and reports whether it is to be written.
func (r *Reporter) due(key string, as seen) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.of(key)
	o.count++
	now := clock.Now()
	if now.Sub(o.written) < recordEvery && o.seen == as {
		return false
	}
	o.written, o.seen = now, as
	return true
}

// of returns what is remembered about a key; the caller holds the lock.
func (r *Reporter) of(key string) *occurrences {
	if have, ok := r.occurrences.Get(key); ok {
		return have.(*occurrences)
	}
	o := &occurrences{}
	r.occurrences.Add(key, o)
	return o
}

// forget a key: its next occurrence is written at once.
func (r *Reporter) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.occurrences.Remove(key)
}

// takeCount returns the number of occurrences since the last call.
func (r *Reporter) takeCount(key string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.of(key)
	n := o.count
	o.count = 0
	return n
}
