package page

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/await"
)

// run the page as its command does.
func (b *browser) run() (end context.CancelFunc) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.page.Run(ctx)
	}()
	end = func() {
		cancel()
		<-ended
	}
	b.t.Cleanup(end)
	return end
}

// stream opens the stream of an open page. Its events arrive on the channel, which is closed with the stream.
func (b *browser) stream(ctx context.Context) (code int, events chan string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+b.page.href(eventsPath), nil)
	require.NoError(b.t, err)
	r.Header.Set("Accept", eventStream)
	resp, err := b.client.Do(r) //nolint:bodyclose // It is closed where it is read.
	require.NoError(b.t, err)
	events = make(chan string, 100)
	go func() {
		defer resp.Body.Close() //nolint:errcheck // It was read.
		defer close(events)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if event, is := strings.CutPrefix(lines.Text(), "event: "); is {
				events <- event
			}
		}
	}()
	return resp.StatusCode, events
}

// next event that is one of some.
func next(t *testing.T, events chan string, want string) {
	t.Helper()
	for await.Next(t, "an event "+want, events) != want {
	}
}

// TestLive covers KR-17-18: an open page hears of each change, and is loaded from what is watched.
func TestLive(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	o.Now = nil
	b := open(t, o)
	b.run()
	shows(t, b.get(b.page.base+"/"), "1 change of 1 cause")
	s.AwaitWatches(t, 0) // without an open page nothing is watched
	_, events := b.stream(t.Context())
	next(t, events, "open")
	s.AwaitWatches(t, 1)
	await.Poll(t, "all Drifts to be known", b.page.view.Synced)

	began := time.Now()
	s.Put(t, held(func(d *v1alpha1.Drift) {
		d.Name, d.Spec.ID, d.Spec.Child.Name = "00000000000000aa", "00000000000000aa", "bills"
	}))
	next(t, events, "change")
	shows(t, b.get(b.page.base+"/"), "2 changes of 1 cause")
	t.Logf("from the event to the page: %v", time.Since(began))

	s.Put(t, held(func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved }))
	next(t, events, "change")
	shows(t, b.get(b.page.base+"/"), "1 change of 1 cause")
	shows(t, b.get(b.page.base+"/cause?key=shops-7f3"), "bills")

	s.Mu.Lock()
	lists := s.Lists
	s.Mu.Unlock()
	for range 20 {
		b.get(b.page.base + "/")
	}
	s.Mu.Lock()
	assert.Equal(t, lists, s.Lists, "what is watched is not listed")
	s.Mu.Unlock()

	s.SetAway(true)
	next(t, events, "change")
	shows(t, b.get(b.page.base+"/"), "The API server does not answer", "1 change of 1 cause")
	s.SetAway(false)
	next(t, events, "change")
	assert.NotContains(t, b.get(b.page.base+"/").body, "The API server does not answer")
}

// TestLiveInNamespaces covers KR-17-18 where the user may list single Namespaces alone.
func TestLiveInNamespaces(t *testing.T) {
	s, o, _ := newServer(t, held(nil))
	o.Now = nil
	s.Forbidden = func(_, path string) bool { return path == "kausality.io/v1alpha1/drifts" || path == "v1/namespaces" }
	b := open(t, o)
	b.run()
	shows(t, b.get(b.page.base+"/"), "1 change of 1 cause")
	_, events := b.stream(t.Context())
	next(t, events, "open")
	s.AwaitWatches(t, 1)
	await.Poll(t, "all Drifts to be known", b.page.view.Synced)
	s.Put(t, held(func(d *v1alpha1.Drift) {
		d.Name, d.Spec.ID, d.Spec.Child.Name = "00000000000000aa", "00000000000000aa", "bills"
	}))
	next(t, events, "change")
	shows(t, b.get(b.page.base+"/"), "2 changes of 1 cause", "You may not list changes of the whole cluster")
	s.Remove(t, held(nil))
	next(t, events, "change")
	shows(t, b.get(b.page.base+"/"), "1 change of 1 cause")
}

// TestStreams covers KR-17-18: streams are few, end with the session and with the page, and keep no session.
func TestStreams(t *testing.T) {
	_, o, clock := newServer(t, held(nil))
	b := open(t, o)
	b.run()
	var all []chan string
	var leave []context.CancelFunc
	for range maxStreams {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		code, events := b.stream(ctx)
		require.Equal(t, http.StatusOK, code)
		next(t, events, "open")
		all, leave = append(all, events), append(leave, cancel)
	}
	code, _ := b.stream(t.Context())
	assert.Equal(t, http.StatusServiceUnavailable, code, "one more")
	leave[0]()
	await.Poll(t, "the stream to end", func() bool {
		b.page.streams.mu.Lock()
		defer b.page.streams.mu.Unlock()
		return len(b.page.streams.open) == maxStreams-1
	})
	_, again := b.stream(t.Context())
	next(t, again, "open")

	clock.Move(idle - time.Minute)
	live := b.load()
	assert.Equal(t, http.StatusOK, live.code)
	clock.Move(2 * time.Minute)
	assert.Equal(t, http.StatusUnauthorized, b.load().code, "a page that loads itself keeps no session")
	for _, events := range append(all[1:], again) {
		await.Closed(t, "a stream", events)
	}
}

// TestStreamsEndWithThePage covers KR-17-18.
func TestStreamsEndWithThePage(t *testing.T) {
	_, o, _ := newServer(t, held(nil))
	b := open(t, o)
	end := b.run()
	_, events := b.stream(t.Context())
	next(t, events, "open")
	end()
	await.Closed(t, "a stream", events)
}

// TestStreamOutlastsARequest covers KR-17-18: what bounds the time that requests and answers take does not end a stream.
func TestStreamOutlastsARequest(t *testing.T) {
	_, o, _ := newServer(t, held(nil))
	b := open(t, o)
	b.run()
	server := httptest.NewUnstartedServer(b.page)
	const longest = 200 * time.Millisecond
	server.Config.ReadTimeout, server.Config.WriteTimeout = longest, longest
	server.Start()
	t.Cleanup(server.Close)
	b.page.hosts = append(b.page.hosts, strings.TrimPrefix(server.URL, "http://"))
	b.base = server.URL
	_, events := b.stream(t.Context())
	next(t, events, "open")
	for began := time.Now(); time.Since(began) < 2*longest; {
		b.page.streams.signal()
		next(t, events, "change")
	}
}

// TestNoticeOfALivePage covers KR-17-18: what was done is shown by the page that the user opens, not by one that loads itself.
func TestNoticeOfALivePage(t *testing.T) {
	_, o, _ := newServer(t, held(nil))
	b := open(t, o)
	r := b.get(b.change("snooze"))
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	require.Equal(t, http.StatusSeeOther, b.send(b.change("snooze"), filled(r.body, map[string][]string{"until": {"1h"}}), nil).code)
	assert.NotContains(t, b.load().body, "Snoozed.")
	assert.Contains(t, b.get(b.page.base+"/").body, "Snoozed.")
}

// load the first page as its script does.
func (b *browser) load() response {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodGet, b.base+b.page.base+"/", nil)
	require.NoError(b.t, err)
	r.Header.Set(liveHeader, "1")
	return b.do(r)
}
