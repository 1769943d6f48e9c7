package hosted

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	_, done, err = p.of(Person{"user-0", []string{"dba"}}, "")
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
