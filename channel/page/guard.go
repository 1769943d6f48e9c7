package page

import (
	"net/http"
	"strings"

	"github.com/kausality-io/function-kausality/channel/view"
)

// policy of what the page may load and where its forms go: its own style sheet and script, itself, and nothing else (KR-17-14).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers requests for the host of the page, from the browser with the session. The link begins that (KR-17-13).
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !p.allowed(r.Host) { // a name of another site that resolves to this address
		http.Error(w, "This is the page of kubectl kausality ui, which has another address.", http.StatusMisdirectedRequest)
		return
	}
	if a := assets[r.URL.Path]; a != nil {
		a.serve(w, r)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, p.base+"/")
	switch {
	case !ok:
		p.refuse(w, r, http.StatusNotFound, "There is no such page", "Open the URL that kubectl kausality ui has printed.")
	case path == "enter" && r.Method == http.MethodGet:
		p.enter(w, r)
	default:
		p.checked(w, r)
	}
}

// checked serves a request of the session.
func (p *Page) checked(w http.ResponseWriter, r *http.Request) {
	s := p.sessions.of(r)
	if s == nil {
		p.refuse(w, r, http.StatusUnauthorized, "Your session has ended", "It ends after 8 hours without a request, and with the command. Nothing was written. "+
			"To begin another one, run kubectl kausality ui again.")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !p.writes(w, r, s) {
		return
	}
	r = withSession(r, s)
	to := *r.URL
	to.Path, to.RawPath = strings.TrimPrefix(to.Path, p.base), ""
	r.URL = &to
	if _, pattern := p.mux.Handler(r); pattern == "" {
		p.refuse(w, r, http.StatusNotFound, "There is no such page", "The link is of another release, or incomplete.")
		return
	}
	p.mux.ServeHTTP(w, r)
}

// writes reports whether a request that writes comes from a form of the page; otherwise it is answered.
func (p *Page) writes(w http.ResponseWriter, r *http.Request, s *session) bool {
	if !sameOrigin(r) {
		p.refuse(w, r, http.StatusForbidden, "Nothing was done", "The request comes from another site.")
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		p.refuse(w, r, http.StatusBadRequest, "Nothing was done", "The form is too large, or cannot be read.")
		return false
	}
	if !same(r.PostForm.Get("csrf"), s.csrf) {
		p.refuse(w, r, http.StatusForbidden, "Nothing was done", "The form is not of this session. Open the page again, and decide there.")
		return false
	}
	return true
}

// sameOrigin reports whether a browser sends a request for a page of the same origin. Browsers send one of the headers with each form.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return strings.EqualFold(origin, "http://"+r.Host)
	}
	return r.Header.Get("Sec-Fetch-Site") != ""
}

// enter begins the session by the token of the link. The browser goes on by a link of the page itself: after a redirection from another
// site it would not send a cookie that is SameSite=Strict.
func (p *Page) enter(w http.ResponseWriter, r *http.Request) {
	s := p.sessions.of(r)
	if s == nil {
		s = p.sessions.begin(r.URL.Query().Get("token"))
	}
	if s == nil {
		p.refuse(w, r, http.StatusUnauthorized, "This link is no longer good", "A link is good once, for ten minutes, in the browser that opens it first. "+
			"Run kubectl kausality ui again for another one.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is for HTTPS, and this is loopback.
		Name: cookieName, Value: s.id, Path: p.base + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	p.render(w, r, nil, &answer{template: "enter.html", title: "Welcome"})
}

// refuse refuses a request that belongs to no session.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	p.render(w, r, nil, p.failed(&view.State{Status: status, Title: title, Text: text}))
}
