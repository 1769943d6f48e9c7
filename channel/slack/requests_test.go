package slack

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/internal/certs"
)

// listen serves the bench's requests until the test ends; Slack sends its interactions there. It returns the URL.
func (b *bench) listen(config *tls.Config) string {
	b.t.Helper()
	on, err := (&net.ListenConfig{}).Listen(b.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.interactions.repeatable = true
	l := &listener{requests: newRequests(b.interactions, slackfake.SigningSecret), tls: config, timeout: b.timeout}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- l.serve(ctx, on) }()
	b.t.Cleanup(func() { cancel(); assert.NoError(b.t, <-done) })
	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}
	b.server.Requests = scheme + on.Addr().String() + RequestPath
	return b.server.Requests
}

// sent is the answer to a request: its code.
func (b *bench) sent(req *http.Request, err error) int {
	b.t.Helper()
	require.NoError(b.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	return resp.StatusCode
}

// clickOf a user as Slack sends it, in the form of a request.
func (b *bench) clickOf(d *v1alpha1.Drift, action channel.Action) string {
	b.t.Helper()
	block, _ := b.message(d).Block()
	body, err := slackfake.Form(map[string]any{
		"type": "block_actions", "team": map[string]any{"id": slackfake.Team}, "user": map[string]any{"id": hans, "team_id": slackfake.Team},
		"actions": []any{map[string]any{"type": "button", "block_id": block, "action_id": actionPrefix + string(action), "action_ts": "1.2"}},
	})
	require.NoError(b.t, err)
	return body
}

// kept are the clicks that are stored.
func (b *bench) kept() []*stored {
	b.t.Helper()
	list, err := b.leader.worker.store.clicks(b.t.Context())
	require.NoError(b.t, err)
	return list
}

// TestRequests clicks by HTTP: KR-17-25.
func TestRequests(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	b.listen(nil)
	assert.Empty(t, b.click(hans, d, channel.ActionApprove, "").Error)
	b.rounds(1)
	assert.Len(t, b.parents.writes(), 1)

	t.Run("Modal", func(t *testing.T) {
		assert.Empty(t, b.click(anna, d, channel.ActionReject, "").Error)
		views := b.state().Views
		require.Len(t, views, 1)
		got, err := b.slack.Submit(slackfake.Submission{User: anna, Team: slackfake.Team, View: views[0].ID, Reason: " "})
		require.NoError(t, err)
		assert.JSONEq(t, `{"response_action":"errors","errors":{"reason":"A reason is required."}}`, string(got.Payload))
	})
}

// TestRefusedAreLoggedSparingly: requests of clients that are not Slack do not fill the log.
func TestRefusedAreLoggedSparingly(t *testing.T) {
	b := newBench(t, interceptor.Funcs{})
	logged := 0
	b.interactions.log = funcr.New(func(string, string) { logged++ }, funcr.Options{})
	to := b.listen(nil)
	for range 20 {
		assert.Equal(t, http.StatusUnauthorized, b.sent(slackfake.Signed(t.Context(), to, "another", "payload={}", time.Now())))
	}
	assert.Equal(t, 1, logged)
}

// TestUnsigned sends requests that Slack did not sign, or not now: KR-17-25.
func TestUnsigned(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	to, body, now := b.listen(nil), b.clickOf(d, channel.ActionApprove), time.Now()
	signed := func(secret, body string, at time.Time) int {
		return b.sent(slackfake.Signed(t.Context(), to, secret, body, at))
	}
	other := func(change func(*http.Request)) int {
		req, err := slackfake.Signed(t.Context(), to, slackfake.SigningSecret, body, now)
		require.NoError(t, err)
		change(req)
		return b.sent(req, nil)
	}
	for name, got := range map[string]int{
		"WrongSecret":    signed("another", body, now),
		"Stale":          signed(slackfake.SigningSecret, body, now.Add(-signedFor-time.Minute)),
		"Future":         signed(slackfake.SigningSecret, body, now.Add(signedFor+time.Minute)),
		"NoSignature":    other(func(r *http.Request) { r.Header.Del("X-Slack-Signature") }),
		"NoTime":         other(func(r *http.Request) { r.Header.Del("X-Slack-Request-Timestamp") }),
		"AnotherTime":    other(func(r *http.Request) { r.Header.Set("X-Slack-Request-Timestamp", "1") }),
		"NoHex":          other(func(r *http.Request) { r.Header.Set("X-Slack-Signature", "v0=xyz") }),
		"ShortSignature": other(func(r *http.Request) { r.Header.Set("X-Slack-Signature", "v0=00") }),
		"Zeros":          other(func(r *http.Request) { r.Header.Set("X-Slack-Signature", "v0="+strings.Repeat("0", 64)) }),
		"SignatureOfOther": other(func(r *http.Request) {
			_, signature := slackfake.Sign(slackfake.SigningSecret, body+"x", now)
			r.Header.Set("X-Slack-Signature", signature)
		}),
	} {
		assert.Equal(t, http.StatusUnauthorized, got, name)
	}
	for name, body := range map[string]string{"NoForm": "%zz", "NoPayload": "a=b", "NoJSON": "payload=%7B", "Array": "payload=%5B%5D"} {
		assert.Equal(t, http.StatusBadRequest, signed(slackfake.SigningSecret, body, now), name)
	}
	assert.Equal(t, http.StatusOK, signed(slackfake.SigningSecret, "ssl_check=1", now))
	assert.Equal(t, http.StatusMethodNotAllowed, b.sent(http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)))
	assert.Equal(t, http.StatusNotFound, b.sent(http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(to, RequestPath)+"/", nil)))
	assert.Empty(t, b.kept())

	assert.Equal(t, http.StatusOK, signed(slackfake.SigningSecret, body, now))
	assert.Len(t, b.kept(), 1)
}

// TestReplayed sends a request again: to the same replica, whose memory has it, and to another one, after the click was worked off: KR-17-25.
func TestReplayed(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	to, body, now := b.listen(nil), b.clickOf(d, channel.ActionApprove), time.Now()
	again := func(to string, change func(*http.Request)) int {
		req, err := slackfake.Signed(t.Context(), to, slackfake.SigningSecret, body, now)
		require.NoError(t, err)
		change(req)
		return b.sent(req, nil)
	}
	same := func(*http.Request) {}
	assert.Equal(t, http.StatusOK, again(to, same))
	b.rounds(1)
	require.Len(t, b.parents.writes(), 1)
	assert.Equal(t, http.StatusUnauthorized, again(to, same))
	upper := func(r *http.Request) {
		r.Header.Set("X-Slack-Signature", "v0="+strings.ToUpper(strings.TrimPrefix(r.Header.Get("X-Slack-Signature"), "v0=")))
	}
	assert.Equal(t, http.StatusUnauthorized, again(to, upper), "the signature in another form")

	other := b.listen(nil) // which has seen nothing
	assert.Equal(t, http.StatusOK, again(other, same))
	b.rounds(2)
	assert.Len(t, b.parents.writes(), 1, "the click was worked off before")
	require.Len(t, b.kept(), 1)
	assert.True(t, b.kept()[0].Over)

	b.later(2*signedFor + time.Minute)
	b.rounds(1)
	assert.Empty(t, b.kept(), "the signature counts no more")
}

// TestLargeRequest sends more than Slack ever does: KR-17-25.
func TestLargeRequest(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, held(1))
	to := b.listen(nil)
	large := "payload=" + strings.Repeat("x", 10<<20)
	req, err := slackfake.Signed(t.Context(), to, slackfake.SigningSecret, large, time.Now())
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err == nil { // else the connection was closed while the client still wrote
		assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	assert.Empty(t, b.kept())
}

// TestSlowRequest begins a request and does not end it: the connection is closed. KR-17-25.
func TestSlowRequest(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, held(1))
	b.timeout = 50 * time.Millisecond
	to := b.listen(nil)
	address := strings.TrimSuffix(strings.TrimPrefix(to, "http://"), RequestPath)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // The server closed it.
	_, err = conn.Write([]byte("POST " + RequestPath + " HTTP/1.1\r\nHost: slack\r\nContent-Length: 100\r\n\r\npayload="))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(readTimeout)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	assert.Empty(t, b.kept())
}

// TestRequestsOverTLS serves a certificate: KR-17-25.
func TestRequestsOverTLS(t *testing.T) {
	state, _, err := certs.Rotation{Hosts: []string{"127.0.0.1"}}.Step(certs.State{}, time.Now())
	require.NoError(t, err)
	pair := tls.Certificate{Certificate: [][]byte{state.Serving.Certificate.Raw}, PrivateKey: state.Serving.Key}
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	b.rounds(1)
	to := b.listen(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	req, err := slackfake.Signed(t.Context(), to, slackfake.SigningSecret, b.clickOf(d, channel.ActionApprove), time.Now())
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // The test's own server.
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Len(t, b.kept(), 1)
}

// TestSeen bounds what is remembered: KR-17-25.
func TestSeen(t *testing.T) {
	s, now := &seen{}, time.Now()
	for i := range maxSeen {
		require.NoError(t, s.add([32]byte{byte(i), byte(i >> 8)}, now))
	}
	require.ErrorIs(t, s.add([32]byte{255, 255}, now), errSeenFull)
	require.ErrorIs(t, s.add([32]byte{}, now), errReplayed)
	require.NoError(t, s.add([32]byte{255, 255}, now.Add(2*signedFor+time.Second)))
	assert.Len(t, s.at, 1)
}

// TestRemembered bounds the clicks that are remembered: what is worked off leaves room for others. KR-17-25.
func TestRemembered(t *testing.T) {
	b := newBench(t, interceptor.Funcs{}, held(1))
	kept := b.leader.worker.store
	keep := func(i int) error {
		return kept.keep(t.Context(), click{User: hans, Event: strconv.Itoa(i), At: b.now(), Remember: b.now().Add(time.Hour)})
	}
	for i := range maxClicks {
		require.NoError(t, keep(i))
	}
	require.ErrorIs(t, keep(maxClicks), errFull)
	b.rounds(1) // their messages are of another release
	require.NoError(t, keep(maxClicks))
	assert.Len(t, b.kept(), maxClicks+1)
}
