package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/view"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed style.css
var style []byte

//go:embed live.js
var script []byte

// asset is a file that pages load. Its path changes with its content, so that it may be cached.
type asset struct {
	content []byte
	kind    string
}

// pathOf returns the path of an asset with a name.
func pathOf(name string, content []byte) string {
	sum := sha256.Sum256(content)
	return "/" + hex.EncodeToString(sum[:6]) + "-" + name
}

var (
	stylePath, scriptPath = pathOf("style.css", style), pathOf("live.js", script)
	// assets by their paths.
	assets = map[string]*asset{stylePath: {style, "text/css"}, scriptPath: {script, "text/javascript"}}
)

// templates by the name of the page, each with the layout. They are parsed for the first page: most processes of the same program show none.
var templates = sync.OnceValue(func() map[string]*template.Template {
	return parse("overview.html", "cause.html", "change.html", "object.html", "confirm.html", "exception.html", "state.html", "enter.html", "coverage.html")
})

// functions of templates.
var functions = template.FuncMap{
	"age": age, "clip": channel.Clip,
	"when": func(t metav1.Time) string { return t.UTC().Format(time.RFC3339) },
	"pair": func(n *node, now time.Time) map[string]any { return map[string]any{"N": n, "Now": now} },
}

// parse parses the templates of pages, which are part of the program.
func parse(names ...string) map[string]*template.Template {
	out := map[string]*template.Template{}
	for _, n := range names {
		t := template.New("layout.html").Funcs(functions)
		out[n] = template.Must(t.ParseFS(templateFiles, "templates/layout.html", "templates/parts.html", "templates/"+n))
	}
	return out
}

// age returns the age of a time at another one, as kubectl prints it; empty for no time.
func age(now time.Time, t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// layout of each page.
type layout struct {
	Title, Base, Style, Script, User, Cluster string
	// Events is where the page hears of changes; empty for one that is not live.
	Events string
	// CSRF is the token of the session's forms; empty before there is a session.
	CSRF   string
	Notice string
	Now    time.Time
	Data   any
}

// render renders the answer to a request of a session, or of none.
func (p *Page) render(w http.ResponseWriter, r *http.Request, s Session, a *answer) {
	l := layout{Title: a.title, Base: p.base, Now: p.options.Now(), Data: a.data}
	if s != nil {
		l.CSRF, l.User, l.Cluster = s.CSRF(), p.options.User, p.options.Cluster
		if r.Header.Get(liveHeader) == "" { // else what is open shows it already
			l.Notice = s.Noted()
		}
		if a.live {
			l.Events = p.href(eventsPath)
		}
	}
	l.write(w, a)
}

// Stop shows a state in place of a page, where there is no session, and where the user may go on; nil for nowhere.
func Stop(w http.ResponseWriter, base string, now time.Time, s view.State, next *Link) {
	l := layout{Title: s.Title, Base: base, Now: now, Data: &stateError{State: &s, Next: next}}
	l.write(w, &answer{status: s.Status, template: "state.html"})
}

// write writes a page.
func (l layout) write(w http.ResponseWriter, a *answer) {
	l.Style, l.Script = stylePath, scriptPath
	var out bytes.Buffer
	if err := templates()[a.template].Execute(&out, l); err != nil {
		http.Error(w, "The page cannot be rendered: "+err.Error(), http.StatusInternalServerError)
		return
	}
	// What is not visible, or changes how other text is shown, is nothing that templates have (KR-17-14).
	body := channel.Printable(out.String())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	_, _ = w.Write([]byte(body)) // a browser that is gone
}

// Asset serves a file that pages load; false where the path of the request is none.
func Asset(w http.ResponseWriter, r *http.Request) bool {
	a := assets[r.URL.Path]
	if a != nil {
		a.serve(w, r)
	}
	return a != nil
}

// serve serves an asset.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	w.Header().Set("Content-Type", a.kind+"; charset=utf-8")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}
