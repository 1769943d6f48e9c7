package site

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kausality-io/function-kausality/test/rights"
)

// Thief is the user agent of requests with a token that was stolen from a component.
const Thief = "thief"

// Request of one of our components.
type Request struct{ rights.Request }

// what is requested, and by which component. A list is requested where a watch that begins with what is stored is refused.
func (e Request) what() string {
	path, _, _ := strings.Cut(e.RequestURI, "?")
	return e.User.Username + " " + strings.Replace(e.Verb, "list", "watch", 1) + " " + path
}

// Looks reports whether the request changes nothing.
func (e Request) Looks() bool { return slices.Contains([]string{"get", "list", "watch"}, e.Verb) }

// Requests calls f for each request of our components so far.
func (l *Site) Requests(t *testing.T, f func(Request)) {
	t.Helper()
	rights.Requests(t, l.AuditLog(), rights.Prefix, `"userAgent":"`+Thief+`"`, func(e rights.Request) { f(Request{e}) })
}

// period of time; one that has not ended where to is zero.
type period struct{ from, to time.Time }

func (p period) has(at time.Time) bool {
	return !p.from.IsZero() && at.After(p.from) && (p.to.IsZero() || at.Before(p.to))
}

// NothingRefused fails the test where a request of a component was refused so far: each has the access that it needs. An API server
// that has just started does not know the roles yet, and refuses all users; and while nothing is installed there are none. A read that was
// granted at another time is forgiven: the API server and the component learn one after the other that roles have changed, and what is
// refused is repeated. That a component stops is shown by TestUnwatch.
func (l *Site) NothingRefused(t *testing.T) {
	t.Helper()
	n := 0
	granted := map[string]bool{} // at any time
	l.Requests(t, func(e Request) {
		granted[e.what()] = granted[e.what()] || e.ResponseStatus.Code < 400 || e.ResponseStatus.Code == http.StatusNotFound
	})
	l.Requests(t, func(e Request) {
		n++
		at := e.RequestReceivedTimestamp
		without := func(p period) bool { return p.has(at) }
		if e.ResponseStatus.Code != http.StatusForbidden || (period{l.Restarted, l.Authorized}).has(at) || slices.ContainsFunc(l.absent, without) {
			return
		}
		if !e.Looks() || !granted[e.what()] {
			t.Errorf("%s cannot %s %s: %s", e.User.Username, e.Verb, e.RequestURI, e.ResponseStatus.Message)
		}
	})
	if n < 100 {
		t.Errorf("only %d requests of ours were checked", n)
	}
}
