package page

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestForged covers KR-17-13: what is not sent by a form of the page, in its session, does nothing.
func TestForged(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	b := open(t, o)
	form := filled(b.get(b.change("approve")).body, nil)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			if r.Header.Set(name, value); value == "" {
				r.Header.Del(name)
			}
		}
	}
	for name, c := range map[string]struct {
		form   url.Values
		change func(*http.Request)
		want   int
	}{
		"Origin":      {form: form, change: header("Origin", "http://evil.example"), want: http.StatusForbidden},
		"NullOrigin":  {form: form, change: header("Origin", "null"), want: http.StatusForbidden},
		"HTTPSOrigin": {form: form, change: header("Origin", strings.Replace(b.base, "http:", "https:", 1)), want: http.StatusForbidden},
		"SameSite":    {form: form, change: header("Sec-Fetch-Site", "same-site"), want: http.StatusForbidden},
		"Neither": {form: form, want: http.StatusForbidden, change: func(r *http.Request) {
			r.Header.Del("Origin")
			r.Header.Del("Sec-Fetch-Site")
		}},
		"Host":    {form: form, change: func(r *http.Request) { r.Host = "evil.example" }, want: http.StatusMisdirectedRequest},
		"NoToken": {form: url.Values{"shown": form["shown"]}, want: http.StatusForbidden},
		"Token":   {form: url.Values{"shown": form["shown"], "csrf": {strings.Repeat("0", 48)}}, want: http.StatusForbidden},
		"Large":   {form: url.Values{"shown": form["shown"], "csrf": form["csrf"], "reason": {strings.Repeat("x", 1<<20)}}, want: http.StatusBadRequest},
		"JSON":    {form: form, change: header("Content-Type", "application/json"), want: http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			r := b.send(b.change("approve"), c.form, c.change)
			assert.Equal(t, c.want, r.code, r.body)
		})
	}
	none := *b
	none.client = http.DefaultClient
	assert.Equal(t, http.StatusUnauthorized, none.send(b.change("approve"), form, nil).code, "another browser")
	assert.Zero(t, s.Patches)
	assert.Equal(t, http.StatusMisdirectedRequest, b.do(request(t, b.base+b.page.base+"/", func(r *http.Request) { r.Host = "localhost.evil.example" })).code)
	assert.Equal(t, http.StatusForbidden, b.do(request(t, b.base+b.change("approve"), func(r *http.Request) { r.Method = http.MethodPut })).code, "another method")
}

func request(t *testing.T, url string, change func(*http.Request)) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	change(r)
	return r
}

// TestSession covers KR-17-13: a link is good once, for ten minutes; a session ends after 8 hours without a request, or when its user leaves.
func TestSession(t *testing.T) {
	_, o, clock := newServer(t, held(nil))
	b := open(t, o)
	again := func() int {
		r, err := http.Get(b.base + b.page.Link()) // of another browser
		require.NoError(t, err)
		defer r.Body.Close() //nolint:errcheck // It is not read.
		return r.StatusCode
	}
	assert.Equal(t, http.StatusUnauthorized, again(), "the link was used")
	assert.Equal(t, http.StatusOK, b.get(b.page.Link()).code, "in the same browser it leads to the page")
	for range 3 {
		clock.Move(7 * time.Hour)
		assert.Equal(t, http.StatusOK, b.get(b.page.base+"/").code)
	}
	clock.Move(8*time.Hour + time.Second)
	r := b.get(b.page.base + "/")
	assert.Equal(t, http.StatusUnauthorized, r.code)
	assert.Contains(t, r.body, "kubectl kausality ui")
	assert.NotContains(t, r.body, "hans", "who it was is not shown")

	b = open(t, o)
	left := b.send(b.page.base+"/leave", url.Values{"csrf": {b.page.sessions.one.csrf}}, nil)
	assert.Contains(t, left.body, "You have left")
	assert.Equal(t, http.StatusUnauthorized, b.get(b.page.base+"/").code)

	p, err := NewLocal(o)
	require.NoError(t, err)
	clock.Move(11 * time.Minute)
	assert.Nil(t, p.sessions.begin(p.sessions.token), "it is too old")
	assert.Nil(t, p.sessions.begin(""))
	assert.NotEqual(t, p.Link(), b.page.Link())
}

// TestHeaders covers KR-17-14: nothing is kept, framed, guessed or loaded from elsewhere, and the cookie is for this page alone.
func TestHeaders(t *testing.T) {
	_, o, _ := newServer(t, held(func(d *v1alpha1.Drift) { d.Namespace = "team" }))
	b := open(t, o)
	for _, path := range []string{"/", "/nothing", "/cause?key=shops-7f3", "/change/" + heldID + "?namespace=team"} {
		r := b.get(b.page.base + path)
		assert.Equal(t, "no-store", r.header.Get("Cache-Control"), path)
		assert.Equal(t, "nosniff", r.header.Get("X-Content-Type-Options"), path)
		assert.Equal(t, policy, r.header.Get("Content-Security-Policy"), path)
		assert.NotContains(t, policy, "unsafe")
		assert.Contains(t, r.header.Get("Content-Type"), "text/html; charset=utf-8", path)
		assert.Contains(t, r.body, `<a class="skip" href="#main">`)
	}
	b.page.sessions = newSessions(o.Now)
	r, err := http.Get(b.base + b.page.Link())
	require.NoError(t, err)
	defer r.Body.Close() //nolint:errcheck // It is not read.
	cookie := r.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=" + b.page.base + "/"} {
		assert.Contains(t, cookie, want)
	}
}
