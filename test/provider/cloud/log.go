package cloud

import (
	"encoding/json"
	"net/http"
	"time"
)

// An EntryKind distinguishes requests from changes without one.
type EntryKind string

// The kinds of entries.
const (
	EntryRequest  EntryKind = "request"  // a client's request to a resource
	EntryBackdoor EntryKind = "backdoor" // a resource lost or changed by /_control
)

// An Entry of the request log.
type Entry struct {
	Seq    int64           `json:"seq"`  // from 1, without gaps
	Time   time.Time       `json:"time"` // arrival, by the cloud's clock, UTC
	Kind   EntryKind       `json:"kind"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"` // a string where it was no JSON or too long
	Code   int             `json:"code"`           // HTTP status of the response
	Client string          `json:"client"`         // User-Agent
}

// IsWrite is true for requests that wanted to change something, refused ones
// included. Backdoor entries are no writes.
func (e Entry) IsWrite() bool {
	return e.Kind == EntryRequest && e.Method != http.MethodGet && e.Method != http.MethodHead
}

// Succeeded is true if the request was answered with a 2xx status.
func (e Entry) Succeeded() bool { return e.Code >= 200 && e.Code < 300 }

// Entries is an excerpt of the log.
type Entries struct {
	Entries []Entry `json:"entries"`
	Last    int64   `json:"last"`    // the newest entry's Seq, 0 if there is none
	Dropped int64   `json:"dropped"` // requested entries that the log no longer has
}

// DefaultLogSize is how many entries a log keeps.
const DefaultLogSize = 100_000

// maxBody is how much of a body an entry keeps, in bytes.
const maxBody = 4096

// A ring of entries. The oldest go first. Not safe for concurrent use.
type ring struct {
	size    int // at least 1
	entries []Entry
	last    int64
}

func newRing(size int) *ring {
	return &ring{size: max(size, 1)}
}

// at is where the entry with this sequence number is kept.
func (r *ring) at(seq int64) int { return int((seq - 1) % int64(r.size)) }

// add an entry; it gets the next sequence number.
func (r *ring) add(e Entry) {
	r.last++
	e.Seq = r.last
	if len(r.entries) < r.size {
		r.entries = append(r.entries, e)
		return
	}
	r.entries[r.at(e.Seq)] = e
}

// after returns the entries with a higher sequence number, oldest first.
func (r *ring) after(since int64, keep func(Entry) bool) Entries {
	out := Entries{Entries: []Entry{}, Last: r.last}
	since = min(since, r.last)
	first := r.last - int64(len(r.entries)) + 1
	if since+1 < first {
		out.Dropped = first - since - 1
		since = first - 1
	}
	for seq := since + 1; seq <= r.last; seq++ {
		if e := r.entries[r.at(seq)]; keep(e) {
			out.Entries = append(out.Entries, e)
		}
	}
	return out
}

// loggable is the body as an entry keeps it.
func loggable(body []byte) json.RawMessage {
	if len(body) == 0 {
		return nil
	}
	if len(body) <= maxBody && json.Valid(body) {
		return body
	}
	b, _ := json.Marshal(string(body[:min(len(body), maxBody)])) // A string always encodes.
	return b
}
