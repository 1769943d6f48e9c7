package page

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// cookieName of the session.
	cookieName = "kausality-session"
	// idle is after how long without a request a session ends.
	idle = 8 * time.Hour
	// linkFor is how long the link that begins a session is good.
	linkFor = 10 * time.Minute
)

// Session of a browser with a user.
type Session interface {
	// CSRF is in each form, and must be in what is sent.
	CSRF() string
	// Note sets a text that is shown once, on the next page, where Noted returns it.
	Note(text string)
	Noted() string
	// End ends it, and Ended is closed then.
	End()
	Ended() <-chan struct{}
}

// session of a local page.
type session struct {
	id, csrf string
	of       *sessions
	// ended is closed when it ends.
	ended chan struct{}

	// notice is a text that is shown once, on the next page.
	notice atomic.Value
}

// CSRF implements Session.
func (s *session) CSRF() string { return s.csrf }

// Note implements Session.
func (s *session) Note(text string) { s.notice.Store(text) }

// Noted implements Session.
func (s *session) Noted() string {
	out, _ := s.notice.Swap("").(string)
	return out
}

// End implements Session.
func (s *session) End() { s.of.end(s) }

// Ended implements Session.
func (s *session) Ended() <-chan struct{} { return s.ended }

// sessions of a page: the one that its link begins.
type sessions struct {
	now   func() time.Time
	token string
	until time.Time

	mu   sync.Mutex
	used bool
	one  *session
	seen time.Time
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, token: random(24), until: now().Add(linkFor)}
}

// random text of n bytes, in hex. crypto/rand does not fail.
func random(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}

// begin begins the session by the token of the link; nil if the token differs, was used, or is too old.
func (s *sessions) begin(token string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !same(token, s.token) || s.used || s.now().After(s.until) {
		return nil
	}
	s.used, s.seen, s.one = true, s.now(), &session{id: random(24), csrf: random(24), of: s, ended: make(chan struct{})}
	return s.one
}

// of returns the session of a request; nil for none, and for one that has ended. A request that the user has not made does not keep it.
func (s *sessions) of(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.one == nil || !same(c.Value, s.one.id) {
		return nil
	}
	if s.now().Sub(s.seen) > idle {
		s.over()
		return nil
	}
	if !Unseen(r) {
		s.seen = s.now()
	}
	return s.one
}

// end ends a session.
func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one == one {
		s.over()
	}
}

// over: the session is no longer one. mu is held.
func (s *sessions) over() {
	close(s.one.ended)
	s.one = nil
}

// same secrets, compared in constant time.
func same(a, b string) bool { return b != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// sessionKey of the session in the context of a request.
type sessionKey struct{}

func withSession(r *http.Request, s Session) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), sessionKey{}, s))
}

func sessionOf(r *http.Request) Session {
	s, _ := r.Context().Value(sessionKey{}).(Session)
	return s
}
