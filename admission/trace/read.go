package trace

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// read a trace as String writes it, to the letter. ok is false for all else, and
// where it has labels, approvals or anything escaped: encoding/json then reads
// it, which takes ten times as long.
func read(value string) (t Trace, ok bool) {
	r := reader{rest: value}
	r.need("[")
	t = make(Trace, 0, strings.Count(value, "},{")+1)
	for !r.failed {
		t = append(t, r.hop())
		if r.rest == "]" {
			return t, !r.failed
		}
		r.need(",")
	}
	return nil, false
}

// reader of a text from its beginning to its end.
type reader struct {
	rest   string
	failed bool
}

func (r *reader) hop() (h v1alpha1.Hop) {
	r.need(`{"apiVersion":"`)
	h.APIVersion = r.text()
	r.need(`,"kind":"`)
	h.Kind = r.text()
	if r.skip(`,"name":"`) {
		h.Name = r.text()
	}
	if r.skip(`,"namespace":"`) {
		h.Namespace = r.text()
	}
	h.ClusterScoped = r.skip(`,"clusterScoped":true`)
	if r.skip(`,"generation":`) {
		h.Generation = r.number()
	}
	r.need(`,"user":"`)
	h.User = r.text()
	if r.skip(`,"timestamp":"`) {
		h.Timestamp = r.time()
	}
	h.Unattributed = r.skip(`,"unattributed":true`)
	h.Settled = r.skip(`,"settled":true`)
	r.need("}")
	return h
}

func (r *reader) skip(text string) (found bool) {
	r.rest, found = strings.CutPrefix(r.rest, text)
	return found
}

func (r *reader) need(text string) { r.failed = !r.skip(text) || r.failed }

// text up to its closing quote.
func (r *reader) text() string {
	for i := range len(r.rest) {
		switch c := r.rest[i]; {
		case c == '"':
			text := r.rest[:i]
			r.rest = r.rest[i+1:]
			return text
		case c < ' ', c == '\\', c >= utf8.RuneSelf:
			r.failed = true
			return ""
		}
	}
	r.failed = true
	return ""
}

// number above 0.
func (r *reader) number() int64 {
	end := strings.IndexFunc(r.rest, func(c rune) bool { return c < '0' || c > '9' })
	n, err := strconv.ParseInt(r.rest[:max(end, 0)], 10, 64)
	if err != nil || r.rest[0] == '0' {
		r.failed = true
		return 0
	}
	r.rest = r.rest[end:]
	return n
}

// time as metav1.Time reads it.
func (r *reader) time() metav1.Time {
	at, err := time.Parse(time.RFC3339, r.text())
	r.failed = r.failed || err != nil
	return metav1.NewTime(at.Local())
}
