package page

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/kausality-io/function-kausality/channel/view"
)

// policy of what the page may load and where its forms go: its own style sheet and script, itself, and nothing else (KR-17-14).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Protect sets the headers that each answer of a page has (KR-17-14).
func Protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Serve serves a request of a session.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request, s Session) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !p.writes(w, r, s) {
		return
	}
	r = withSession(r, s)
	to := *r.URL
	to.Path, to.RawPath = strings.TrimPrefix(to.Path, p.base), ""
	r.URL = &to
	if _, pattern := p.mux.Handler(r); pattern == "" {
		p.stop(w, http.StatusNotFound, "There is no such page", "The link is of another release, or incomplete.")
		return
	}
	p.mux.ServeHTTP(w, r)
}

// writes reports whether a request that writes comes from a form of the page; otherwise it is answered.
func (p *Page) writes(w http.ResponseWriter, r *http.Request, s Session) bool {
	if !sameOrigin(r, cmp.Or(p.options.Origin, "http://"+r.Host)) {
		p.stop(w, http.StatusForbidden, "Nothing was done", "The request comes from another site.")
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		p.stop(w, http.StatusBadRequest, "Nothing was done", "The form is too large, or cannot be read.")
		return false
	}
	if !same(r.PostForm.Get("csrf"), s.CSRF()) {
		p.stop(w, http.StatusForbidden, "Nothing was done", "The form is not of this session. Open the page again, and decide there.")
		return false
	}
	return true
}

// sameOrigin reports whether a browser sends a request for a page of an origin. Browsers send one of the headers with each form.
func sameOrigin(r *http.Request, origin string) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	if of := r.Header.Get("Origin"); of != "" {
		return strings.EqualFold(of, origin)
	}
	return r.Header.Get("Sec-Fetch-Site") != ""
}

// stop shows a state in place of a page.
func (p *Page) stop(w http.ResponseWriter, status int, title, text string) {
	Stop(w, p.base, p.options.Now(), view.State{Status: status, Title: title, Text: text}, nil)
}
