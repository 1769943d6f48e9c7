package page

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// browser of a user: it keeps cookies, and sends forms as browsers do.
type browser struct {
	t      *testing.T
	client *http.Client
	page   *Local
	base   string
}

// response of the page.
type response struct {
	code   int
	body   string
	header http.Header
	// at is where the browser is then.
	at *url.URL
}

// open the page, and begin the session.
func open(t *testing.T, o Options) *browser {
	t.Helper()
	var p *Local
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	p, err := NewLocal(o, strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	b := &browser{t: t, client: &http.Client{Jar: jar}, page: p, base: server.URL}
	r := b.get(p.Link())
	require.Equal(t, http.StatusOK, r.code, r.body)
	require.Contains(t, r.body, `content="0; url=`+p.base+`/"`)
	return b
}

// get a path.
func (b *browser) get(path string) response {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodGet, b.base+path, nil)
	require.NoError(b.t, err)
	return b.do(r)
}

// do a request.
func (b *browser) do(r *http.Request) response {
	b.t.Helper()
	resp, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer resp.Body.Close() //nolint:errcheck // It was read.
	raw, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return response{code: resp.StatusCode, body: string(raw), header: resp.Header, at: resp.Request.URL}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// form of the page that is sent, with what is entered.
func filled(body string, entered url.Values) url.Values {
	_, body, _ = strings.Cut(body, "<main")
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	for k, v := range entered {
		form[k] = v
	}
	return form
}

// send a form.
func (b *browser) send(path string, form url.Values, change func(*http.Request)) response {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodPost, b.base+path, strings.NewReader(form.Encode()))
	require.NoError(b.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.base)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	return b.do(r)
}

// take an action: open its confirmation, enter something, and send it.
func (b *browser) take(path string, entered url.Values) (confirmation, after response) {
	b.t.Helper()
	confirmation = b.get(path)
	require.Equal(b.t, http.StatusOK, confirmation.code, confirmation.body)
	return confirmation, b.send(path, filled(confirmation.body, entered), nil)
}

// path of the change with an action; empty for its page.
func (b *browser) change(action string) string {
	if action != "" {
		action = "/" + action
	}
	return b.page.base + "/change/" + heldID + action + "?namespace=team"
}
