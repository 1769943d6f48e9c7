package hosted

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// sessionFor is how long a session lasts at most, freshFor after what time who its user is, and with which groups, is determined again.
	sessionFor, freshFor = 12 * time.Hour, 5 * time.Minute
	// longestToken is how long a session without a refresh token lasts at most.
	longestToken = time.Hour
	// graceFor is how long a session goes on while the issuer does not answer.
	graceFor = 15 * time.Minute
	// racedFor is how long a session goes on whose refresh token was used: another request, perhaps to another replica, has the next one.
	racedFor = 30 * time.Second
	// raceFor is how long the answer of that other request may take to arrive.
	raceFor = 2 * time.Second
	// maxRaced bounds the sessions whose next one is remembered for that time.
	maxRaced = 1000
)

// Names of cookies.
const (
	cookieSession, cookieLogin, cookieNotice, cookieRaced = "session", "login", "notice", "raced"

	purposeTo = "to"
)

// ticket is a session, in a cookie.
type ticket struct {
	Person
	CSRF string `json:"csrf"`
	// Began is when the user logged in, Fresh until when the person counts, in seconds.
	Began int64 `json:"began"`
	Fresh int64 `json:"fresh"`
	// Refresh is the token by which that is determined again; empty for none.
	Refresh string `json:"refresh,omitempty"`
	// renewed is whether it is the answer to a request of an earlier one.
	renewed bool
}

// over reports whether a session has lasted as long as it may.
func (t *ticket) over(now time.Time) bool { return now.Unix() >= t.Began+int64(sessionFor/time.Second) }

// stale returns for how long the person does not count any more; negative while it does.
func (t *ticket) stale(now time.Time) time.Duration { return now.Sub(time.Unix(t.Fresh, 0)) }

var (
	// errNoSession is that a request is of no session, or of one that has ended.
	errNoSession = errors.New("there is no session")
	// errRaced is that the refresh token of a session was used before, or is revoked. In the first case the browser is about to have the next session.
	errRaced = errors.New("the session was continued by another request, or has ended")
)

// sessions of the login of the page.
type sessions struct {
	cookies
	config *Config
	login  *login
	log    logr.Logger
	flight singleflight.Group
	// next are the sessions that follow others, for the requests that come with those at the same time.
	next *utilcache.LRUExpireCache
}

// begin begins a session by what the issuer has granted.
func (s *sessions) begin(w http.ResponseWriter, g grant) (Person, error) {
	p, err := s.config.admit(g.Person)
	if err != nil {
		return p, err
	}
	t := &ticket{CSRF: rand.Text(), Began: s.now().Unix()}
	t.granted(p, g, s.now())
	return p, s.keep(w, t)
}

// granted takes over what the issuer has granted.
func (t *ticket) granted(p Person, g grant, now time.Time) {
	t.Person, t.Refresh = p, g.refresh
	until := now.Add(freshFor)
	if t.Refresh == "" && g.until.After(until) {
		if until = g.until; until.After(now.Add(longestToken)) {
			until = now.Add(longestToken)
		}
	}
	t.Fresh = until.Unix()
}

// keep keeps a session in the browser. A refresh token that does not fit into the cookie is left out: the user logs in again when it is no longer fresh.
func (s *sessions) keep(w http.ResponseWriter, t *ticket) error {
	err := s.set(w, cookieSession, t, sessionFor)
	if !errors.Is(err, errTooLarge) {
		return err
	}
	s.log.Info("a refresh token does not fit into a cookie: its user logs in again after "+freshFor.String(), "user", t.User, "bytes", len(t.Refresh))
	without := *t
	without.Refresh = ""
	if err := s.set(w, cookieSession, &without, sessionFor); err != nil {
		return fmt.Errorf("cannot keep the session of %s: %w", t.User, err)
	}
	return nil
}

// of returns the session of a request. A user whom the issuer does not know any more, or who may not look any more, has none. errNoSession is that
// there is none; an issuerError that who the user is cannot be determined now.
func (s *sessions) of(w http.ResponseWriter, r *http.Request) (*ticket, error) {
	t := &ticket{}
	if !s.get(r, cookieSession, t) {
		return nil, errNoSession
	}
	stale := t.stale(s.now())
	switch {
	case t.over(s.now()), stale >= 0 && t.Refresh == "":
		s.clear(w, cookieSession)
		return nil, errNoSession
	case stale < 0:
		p, err := s.config.admit(t.Person) // the configuration may be another one by now
		if err != nil {
			s.clear(w, cookieSession)
			return nil, err
		}
		t.Person = p
		return t, nil
	}
	return s.renew(w, r, t)
}

// renew returns the session that follows one which is not fresh.
func (s *sessions) renew(w http.ResponseWriter, r *http.Request, t *ticket) (*ticket, error) {
	stale := t.stale(s.now())
	next, err := s.again(r.Context(), t)
	if err != nil && next != nil { // the next refresh token, and no more than that
		if err := s.keep(w, next); err != nil {
			return nil, err
		}
		t = next
	}
	switch {
	case err == nil:
		refreshes.WithLabelValues("refreshed").Inc()
		out := *next
		out.renewed = true
		return &out, s.keep(w, next)
	case errors.Is(err, errRevoked) && stale < racedFor:
		return t, nil
	case errors.Is(err, errRevoked) && s.raced(w, r, t):
		return nil, errRaced
	case errors.As(err, new(*issuerError)) && stale < graceFor:
		refreshes.WithLabelValues("unavailable").Inc()
		s.log.Error(err, "cannot determine again who a user is; the session goes on for a while", "user", t.User)
		return t, nil
	case errors.As(err, new(*issuerError)):
		refreshes.WithLabelValues("unavailable").Inc()
		return nil, err
	}
	refreshes.WithLabelValues("ended").Inc()
	s.log.Info("a session has ended", "user", t.User, "error", err.Error())
	s.clear(w, cookieSession)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		return nil, refused
	}
	return nil, errNoSession
}

// raced reports whether a session whose refresh token does not count may have been continued by another request: it is so once for each, and then has
// ended.
func (s *sessions) raced(w http.ResponseWriter, r *http.Request, t *ticket) bool {
	sum, seen := fmt.Sprintf("%x", sha256.Sum256([]byte(t.Refresh))), ""
	if s.get(r, cookieRaced, &seen) && seen == sum {
		s.clear(w, cookieRaced)
		return false
	}
	return s.set(w, cookieRaced, sum, racedFor) == nil
}

// again determines again who the user of a session is. Requests at the same time are one to the issuer: it may take a refresh token once.
func (s *sessions) again(ctx context.Context, t *ticket) (*ticket, error) {
	key := sha256.Sum256([]byte(t.Refresh))
	if next, ok := s.next.Get(key); ok {
		return next.(*continued).ticket, next.(*continued).err
	}
	done, _, _ := s.flight.Do(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), issuerTimeout) // for all of them
		defer cancel()
		out := &continued{}
		out.ticket, out.err = s.continues(ctx, t)
		switch {
		case out.err == nil:
			s.next.Add(key, out, racedFor)
		case errors.As(out.err, new(*issuerError)): // each request would wait for it
			s.next.Add(key, out, discoverEvery)
		}
		return out, nil
	})
	return done.(*continued).ticket, done.(*continued).err
}

// continued is the outcome of a refresh: the next ticket, also beside an error that is of the issuer alone.
type continued struct {
	ticket *ticket
	err    error
}

// continues returns the ticket after another one.
func (s *sessions) continues(ctx context.Context, t *ticket) (*ticket, error) {
	next := *t
	g, err := s.login.again(ctx, t.Refresh)
	if err != nil && g.refresh != "" && g.refresh != t.Refresh {
		next.Refresh = g.refresh
		return &next, err
	}
	if err != nil {
		return nil, err
	}
	p, err := s.config.admit(g.Person)
	if err == nil && p.User != t.User {
		err = &refusedError{fmt.Sprintf("The session was that of %s, and the issuer now answers with another user.", t.User)}
	}
	if err != nil {
		return nil, err
	}
	next.granted(p, g, s.now())
	return &next, nil
}

// session of one request; it implements page.Session.
type session struct {
	cookies
	w      http.ResponseWriter
	r      *http.Request
	ticket *ticket
	// end is called once the user has left.
	end func()
	// ended with the context.
	ctx context.Context //nolint:containedctx // It is that of the request, which the session is of.
}

// CSRF implements page.Session.
func (s *session) CSRF() string { return s.ticket.CSRF }

// Note implements page.Session: the text is in a cookie, since the next page may be of another replica.
func (s *session) Note(text string) {
	_ = s.set(s.w, cookieNotice, text, time.Minute) // what does not fit is not shown
}

// Noted implements page.Session.
func (s *session) Noted() (text string) {
	if s.get(s.r, cookieNotice, &text) {
		s.clear(s.w, cookieNotice)
	}
	return text
}

// End implements page.Session.
func (s *session) End() {
	s.clear(s.w, cookieSession)
	s.end()
}

// Ended implements page.Session: a stream ends when who its user is is to be determined again, and the browser requests the next one.
func (s *session) Ended() <-chan struct{} { return s.ctx.Done() }
