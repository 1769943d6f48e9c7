package page

import (
	"context"
	"errors"
	"net/http"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/channel/view"
)

const (
	// FieldManager of what is written on the page: votes have it as their via.
	FieldManager = "page"
	// maxBody of a request in bytes: a form with a reason.
	maxBody = 64 << 10
)

// Options of a Page.
type Options struct {
	// Options of what the user sees; Manager, Command and Again are the page's own.
	view.Options
	// Cluster is shown, as the name of a context.
	Cluster string
	// Origin of the page, as https://HOST: what writes must come from it. Where it is empty, it is http:// and the host of the request.
	Origin string
	// Base is the path below which the page is; empty for none.
	Base string
	// Left is what a user is shown who has left.
	Left view.State
}

// Page is the handler of the page of one user. It is safe for concurrent use.
type Page struct {
	options Options
	view    *view.View
	streams *streams
	links
	mux *http.ServeMux
}

// New Page for one user.
func New(o Options) (*Page, error) {
	if o.Now == nil {
		o.Now = clock.Now
	}
	o.Manager, o.Again = FieldManager, "Load the page again in a moment."
	v, err := view.New(o.Options)
	if err != nil {
		return nil, err
	}
	p := &Page{options: o, view: v, links: links{base: o.Base}, mux: http.NewServeMux(), streams: newStreams()}
	c, on := changes{p}, objects{p}
	for pattern, h := range map[string]handler{
		"GET /{$}":                   lists{p}.overview,
		"GET /cause":                 lists{p}.cause,
		"GET /change/{id}":           c.show,
		"GET /change/{id}/{action}":  c.confirm,
		"POST /change/{id}/{action}": c.decide,
		"GET /object":                on.show,
		"GET /object/{action}":       on.confirm,
		"POST /object/{action}":      on.decide,
		"GET /coverage":              p.coverage,
		"POST /leave":                p.leave,
	} {
		p.mux.Handle(pattern, p.handle(h))
	}
	p.mux.HandleFunc("GET "+eventsPath, p.events)
	return p, nil
}

// handler of a page, which reads with ctx.
type handler func(ctx context.Context, q *query) (*answer, error)

// query is a request that was checked.
type query struct {
	*http.Request
	session Session
}

// answer to a query: a redirection, or a template with its data.
type answer struct {
	// to is where the browser goes next; empty renders the template.
	to       string
	status   int
	template string
	title    string
	data     any
	// live: the page is loaded again when what waits has changed.
	live bool
}

// stateError is a state that the user is shown in place of a page.
type stateError struct {
	*view.State
	// Retry is the form to send again, with what was entered; nil for none.
	Retry *retry
	// Next is where the user may go on; nil for nowhere.
	Next *Link
}

// Link to a page.
type Link struct{ Text, Href string }

// retry of a form that could not be worked off.
type retry struct {
	To, Reason, Shown, Scope, At, Until, Opened string
}

// handle handles a checked request with a handler.
func (p *Page) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), view.ReadFor)
		defer cancel()
		s := sessionOf(r)
		a, err := h(ctx, &query{Request: r, session: s})
		if err != nil {
			a = p.failed(err)
		}
		if a.to != "" {
			http.Redirect(w, r, a.to, http.StatusSeeOther)
			return
		}
		p.render(w, r, s, a)
	})
}

// failed returns the answer where a page cannot be shown.
func (p *Page) failed(err error) *answer {
	state := (*stateError)(nil)
	if !errors.As(err, &state) {
		state = &stateError{State: p.view.StateOf(err)}
	}
	return &answer{status: state.Status, template: "state.html", title: state.Title, data: state}
}

// leave ends the session.
func (p *Page) leave(_ context.Context, q *query) (*answer, error) {
	q.session.End()
	left := p.options.Left
	return nil, &left
}
