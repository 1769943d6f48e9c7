package hosted

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-logr/logr"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/page"
	"github.com/kausality-io/function-kausality/channel/view"
)

// site answers the requests of all users.
type site struct {
	cookies
	config *Config
	host   string
	// sessions of the login of the page, or bearer for tokens of a proxy: one of the two.
	sessions *sessions
	bearer   *bearer
	pool     *pool
	log      logr.Logger
}

// ServeHTTP answers a request for the host of the page: of a user who is known, or who is led to the login.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page.Protect(w.Header())
	if !strings.EqualFold(r.Host, s.host) {
		http.Error(w, "This page has another address.", http.StatusMisdirectedRequest)
		return
	}
	switch {
	case page.Asset(w, r):
	case s.bearer != nil:
		s.byToken(w, r)
	case r.URL.Path == callbackPath:
		s.callback(w, r)
	case r.URL.Path == welcomePath:
		s.welcome(w, r)
	default:
		s.bySession(w, r)
	}
}

// byToken answers a request by the token that a proxy has added.
func (s *site) byToken(w http.ResponseWriter, r *http.Request) {
	who, token, err := s.bearer.of(r)
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		s.stop(w, http.StatusUnauthorized, "You are not logged in", refused.text, nil)
		return
	}
	if err != nil {
		s.log.Error(err, "cannot determine the user of a request")
		s.stop(w, http.StatusServiceUnavailable, "The API server does not answer", "Load the page again in a moment.", &page.Link{Text: "Load again", Href: local(r)})
		return
	}
	t := &ticket{}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(who.key())))
	if !s.get(r, cookieSession, t) || t.User != key { // the groups of a user may be more than fit into a cookie
		t = &ticket{Person: Person{User: key}, CSRF: rand.Text(), Began: s.now().Unix()}
		if err := s.set(w, cookieSession, t, sessionFor); err != nil {
			s.log.Error(err, "cannot keep a session", "user", who.User)
		}
	}
	s.serve(w, r, who, token, t, freshFor, func() {})
}

// bySession answers a request of a session.
func (s *site) bySession(w http.ResponseWriter, r *http.Request) {
	t, err := s.sessions.of(w, r)
	if err != nil {
		s.withoutSession(w, r, err)
		return
	}
	if t.renewed && seen(r) { // at once, since other requests wait for what the browser has then: see raceFor
		http.Redirect(w, r, local(r), http.StatusSeeOther)
		return
	}
	s.serve(w, r, t.Person, "", t, max(-t.stale(s.now()), racedFor), func() { go s.revoke(t.Refresh) })
}

// revokeTimeout bounds the revocation of a session at the issuer.
const revokeTimeout = 10 * time.Second

// revoke revokes a session at the issuer: the cookie, which another client may have copied, is good for a few minutes only then.
func (s *site) revoke(refresh string) {
	ctx, cancel := context.WithTimeout(context.Background(), revokeTimeout)
	defer cancel()
	if err := s.sessions.login.revoke(ctx, refresh); err != nil {
		s.log.Error(err, "cannot end a session at the issuer")
	}
}

// serve serves a request with the page of its user. A stream of it ends after some time.
func (s *site) serve(w http.ResponseWriter, r *http.Request, who Person, token string, t *ticket, until time.Duration, end func()) {
	one, done, err := s.pool.of(who, token)
	if err != nil {
		s.log.Error(err, "cannot show a page", "user", who.User)
		s.stop(w, http.StatusServiceUnavailable, "The page cannot be shown", err.Error()+". Load it again in a moment.",
			&page.Link{Text: "Load again", Href: local(r)})
		return
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), until)
	defer cancel()
	one.Serve(w, r, &session{cookies: s.cookies, w: w, r: r, ticket: t, end: end, ctx: ctx})
}

// seen reports whether a request is for a page that its user is led to.
func seen(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !page.Unseen(r)
}

// withoutSession answers a request without a session: a page leads to the login, anything else is refused.
func (s *site) withoutSession(w http.ResponseWriter, r *http.Request, why error) {
	if refused := (*refusedError)(nil); errors.As(why, &refused) {
		s.stop(w, http.StatusForbidden, "You may not look any more", refused.text, &page.Link{Text: "Log in as another user", Href: "/"})
		return
	}
	if errors.As(why, new(*issuerError)) {
		s.unavailable(w, why, local(r))
		return
	}
	if errors.Is(why, errRaced) && seen(r) {
		select { // the browser keeps the next session meanwhile, if there is one
		case <-r.Context().Done():
		case <-time.After(raceFor):
		}
		http.Redirect(w, r, local(r), http.StatusSeeOther)
		return
	}
	if !seen(r) {
		s.stop(w, http.StatusUnauthorized, "Your session has ended", "Nothing was written. Log in again, and decide then.", &page.Link{Text: "Log in", Href: "/"})
		return
	}
	begun := pending{}
	if !s.get(r, cookieLogin, &begun) {
		begun = pending{}
	}
	p, at, err := s.sessions.login.begin(local(r), begun)
	if err == nil {
		err = s.set(w, cookieLogin, p, loginFor)
	}
	if err != nil {
		s.unavailable(w, err, local(r))
		return
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// maxReturn is the length of a path that a login leads back to: it passes the login in a cookie.
const maxReturn = 1024

// local returns the path and query of a request, as a link to this page and to no other host.
func local(r *http.Request) string {
	to := r.URL.RequestURI()
	if len(to) > maxReturn || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\t\r\n") {
		return "/"
	}
	return to
}

// unavailable is shown while the issuer does not answer. It leads nowhere by itself.
func (s *site) unavailable(w http.ResponseWriter, err error, to string) {
	logins.WithLabelValues("unavailable").Inc()
	s.log.Error(err, "a user cannot log in")
	s.stop(w, http.StatusServiceUnavailable, "The login is not available",
		"The issuer does not answer as it should; the log of this page has the reason. Try again in a moment; what waits is also shown by kubectl kausality.",
		&page.Link{Text: "Try again", Href: to})
}

// callback ends a login.
func (s *site) callback(w http.ResponseWriter, r *http.Request) {
	p, q := pending{}, r.URL.Query()
	begun := s.get(r, cookieLogin, &p)
	switch {
	case !begun || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(p.State)) != 1:
		if _, err := s.sessions.of(w, r); err == nil { // another tab has logged in
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		logins.WithLabelValues("refused").Inc()
		s.stop(w, http.StatusBadRequest, "This login is over", "It was begun more than ten minutes ago, in another tab or browser, or has ended already.",
			&page.Link{Text: "Log in", Href: "/"})
		return
	case q.Get("error") != "":
		s.clear(w, cookieLogin)
		logins.WithLabelValues("refused").Inc()
		s.stop(w, http.StatusForbidden, "You are not logged in", "The issuer answers: "+channel.Clip(q.Get("error")+" "+q.Get("error_description")),
			&page.Link{Text: "Try again", Href: p.To})
		return
	}
	s.clear(w, cookieLogin)
	ctx, cancel := context.WithTimeout(r.Context(), 2*issuerTimeout)
	defer cancel()
	g, err := s.sessions.login.end(ctx, p, q.Get("code"))
	if err == nil {
		_, err = s.sessions.begin(w, g)
	}
	if err != nil {
		s.notLoggedIn(w, err, p.To)
		return
	}
	logins.WithLabelValues("logged-in").Inc()
	to, err := s.seal(purposeTo, p.To, time.Minute)
	if err != nil {
		to = ""
	}
	http.Redirect(w, r, welcomePath+"?"+url.Values{purposeTo: {to}}.Encode(), http.StatusSeeOther)
}

// notLoggedIn is shown where a login does not count. It leads nowhere by itself.
func (s *site) notLoggedIn(w http.ResponseWriter, err error, to string) {
	if errors.As(err, new(*issuerError)) {
		s.unavailable(w, err, to)
		return
	}
	logins.WithLabelValues("refused").Inc()
	s.log.Info("a login is refused", "error", err.Error())
	again := &page.Link{Text: "Log in again", Href: to}
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		s.stop(w, http.StatusForbidden, "You may not look", refused.text, again)
		return
	}
	text := channel.Clip(err.Error()) + "."
	if errors.As(err, new(*oidc.TokenExpiredError)) || strings.Contains(err.Error(), "nbf") {
		text += " The clocks of the issuer and of this cluster may differ."
	}
	s.stop(w, http.StatusBadRequest, "The login does not count", text, again)
}

// welcome leads to the page that the user wanted to see, once the session is known: a browser that keeps no cookie, or a replica with other keys, would
// otherwise lead to the login for ever.
func (s *site) welcome(w http.ResponseWriter, r *http.Request) {
	if _, err := s.sessions.of(w, r); err != nil {
		s.stop(w, http.StatusBadRequest, "The login was not kept", "Your browser has kept no cookie of this page, or its replicas have different keys of cookies.",
			&page.Link{Text: "Log in again", Href: "/"})
		return
	}
	to := ""
	if !s.open(purposeTo, r.URL.Query().Get(purposeTo), &to) {
		to = "/"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// stop shows a state in place of a page.
func (s *site) stop(w http.ResponseWriter, status int, title, text string, next *page.Link) {
	page.Stop(w, "", s.now(), view.State{Status: status, Title: title, Text: text}, next)
}
