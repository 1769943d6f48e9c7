package hosted

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/channel/page"
	"github.com/kausality-io/function-kausality/channel/view"
)

// TestPool covers KR-17-32: there are so many pages at most; the one without a request for longest makes room, and idle ones are dropped.
func TestPool(t *testing.T) {
	at, made := time.Now(), 0
	p := &pool{now: func() time.Time { return at }, ctx: t.Context(), pages: map[string]*pooled{}}
	p.make = func(Person, *atomic.Pointer[string]) (*page.Page, error) {
		made++
		return page.New(page.Options{Options: view.Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}}})
	}
	person := func(n int) Person { return Person{User: fmt.Sprint("user-", n)} }
	var last func()
	for n := range maxPages {
		_, done, err := p.of(person(n), "")
		require.NoError(t, err)
		if n < maxPages-1 {
			at = at.Add(time.Second)
			done()
		}
		last = done
	}
	first, done, err := p.of(person(0), "token")
	require.NoError(t, err)
	assert.Equal(t, "token", *first.token.Load())
	done()
	require.Equal(t, maxPages, made, "the page of a user is kept")
	_, done, err = p.of(Person{User: "user-0", Groups: []string{"dba"}}, "")
	require.NoError(t, err)
	done()
	assert.NotContains(t, p.pages, person(1).key(), "it made room")
	assert.Contains(t, p.pages, person(maxPages-1).key(), "it is in use")
	at = at.Add(idleFor + time.Second)
	p.dropIdle()
	assert.Len(t, p.pages, 1)
	last()

	var ends []func()
	for n := range maxPages {
		_, done, err := p.of(person(n), "")
		require.NoError(t, err)
		ends = append(ends, done)
	}
	_, _, err = p.of(person(maxPages), "")
	require.ErrorIs(t, err, errBusy)
	for _, end := range ends {
		end()
	}
	p.make = func(Person, *atomic.Pointer[string]) (*page.Page, error) { return nil, errors.New("no") }
	_, _, err = p.of(person(maxPages), "")
	require.Error(t, err)
}

// TestManyGroups covers KR-17-28: a user of more groups than fit into a cookie has one session, so that a form that was shown is of it.
func TestManyGroups(t *testing.T) {
	k := newKeyring(t)
	many := make([]string, 1000)
	for n := range many {
		many[n] = fmt.Sprintf("00000000-0000-0000-0000-%012d", n*n)
	}
	api := &reviews{status: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "hans", Groups: many}}}
	s := &site{cookies: cookies{k.sealer("https://a.example.org"), true}, host: "a.example.org", bearer: newBearer(nil, api), log: logr.Discard(),
		pool: &pool{now: time.Now, ctx: t.Context(), pages: map[string]*pooled{}}}
	s.pool.make = func(Person, *atomic.Pointer[string]) (*page.Page, error) { return nil, errBusy }
	var kept []*http.Cookie
	for n := range 3 {
		r, w := httptest.NewRequest(http.MethodGet, "https://a.example.org/", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer abc")
		for _, c := range kept {
			r.AddCookie(c)
		}
		s.ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		if got := w.Result().Cookies(); n == 0 { //nolint:bodyclose // It is a recorder's.
			kept = got
			require.Len(t, kept, 1)
		} else {
			assert.Empty(t, got, "the session goes on")
		}
	}
}
