package page

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kausality-io/function-kausality/channel/view"
)

// command that serves a page on the computer of its user.
const command = "kubectl kausality ui"

// Local is the page on the computer of its user: for the browser that opened its link first, and no other client (KR-17-13).
type Local struct {
	*Page
	sessions *sessions
	// hosts that requests may be for, with the port.
	hosts []string
}

// NewLocal returns the page of the user of the options, for requests to some hosts, with the port.
func NewLocal(o Options, hosts ...string) (*Local, error) {
	o.Base, o.Expired = "/"+random(8), view.KubeconfigExpired(command)
	o.Left = view.State{Status: http.StatusOK, Title: "You have left", Text: "The session has ended. To look again: " + command}
	p, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Local{Page: p, sessions: newSessions(p.options.Now), hosts: hosts}, nil
}

// Link returns the link that begins the session, as a path with its query. It is good once, for ten minutes.
func (p *Local) Link() string { return p.base + "/enter?token=" + p.sessions.token }

// ServeHTTP answers requests for the host of the page, from the browser with the session. The link begins that (KR-17-13).
func (p *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	Protect(w.Header())
	if !slices.Contains(p.hosts, strings.ToLower(r.Host)) { // a name of another site that resolves to this address
		http.Error(w, "This is the page of "+command+", which has another address.", http.StatusMisdirectedRequest)
		return
	}
	if Asset(w, r) {
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, p.base+"/")
	switch {
	case !ok:
		p.stop(w, http.StatusNotFound, "There is no such page", "Open the URL that "+command+" has printed.")
	case path == "enter" && r.Method == http.MethodGet:
		p.enter(w, r)
	default:
		p.checked(w, r)
	}
}

// checked serves a request of the session.
func (p *Local) checked(w http.ResponseWriter, r *http.Request) {
	s := p.sessions.of(r)
	if s == nil {
		p.stop(w, http.StatusUnauthorized, "Your session has ended", "It ends after 8 hours without a request, and with the command. Nothing was written. "+
			"To begin another one, run "+command+" again.")
		return
	}
	p.Serve(w, r, s)
}

// enter begins the session by the token of the link. The browser goes on by a link of the page itself: after a redirection from another
// site it would not send a cookie that is SameSite=Strict.
func (p *Local) enter(w http.ResponseWriter, r *http.Request) {
	s := p.sessions.of(r)
	if s == nil {
		s = p.sessions.begin(r.URL.Query().Get("token"))
	}
	if s == nil {
		p.stop(w, http.StatusUnauthorized, "This link is no longer good", "A link is good once, for ten minutes, in the browser that opens it first. "+
			"Run "+command+" again for another one.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure is for HTTPS, and this is loopback.
		Name: cookieName, Value: s.id, Path: p.base + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	p.render(w, r, nil, &answer{template: "enter.html", title: "Welcome"})
}
