package slack

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

// toAll are the messages that all see.
func (b *bench) toAll() (out []*slackfake.Message) {
	for _, m := range b.state().Messages {
		if m.Ephemeral == "" {
			out = append(out, m)
		}
	}
	return out
}

// TestManyAreOneMessage covers KR-17-07: 500 held objects of one cause are one message with a bounded thread, and each is delivered.
func TestManyAreOneMessage(t *testing.T) {
	var drifts []*v1alpha1.Drift
	for n := range 500 {
		drifts = append(drifts, held(n))
	}
	b := newBench(t, interceptor.Funcs{}, drifts...)
	b.rounds(6)
	all := b.toAll()
	require.Len(t, all, 1+maxListed)
	for _, m := range all[1:] {
		assert.Equal(t, all[0].TS, m.ThreadTS)
	}
	assert.Contains(t, all[0].Blocks, "500 changes of 500 objects")
	assert.Contains(t, all[0].Blocks, "480 more are not listed in the thread")
	for _, d := range drifts {
		require.NotNil(t, b.delivery(d))
		assert.Equal(t, v1alpha1.DriftDetected, b.delivery(d).Phase)
	}
	b.change(drifts[499], func(d *v1alpha1.Drift) { d.Status.Phase = v1alpha1.DriftResolved })
	b.rounds(1)
	assert.Contains(t, b.toAll()[0].Blocks, "1 of them decided or gone")
	assert.Len(t, b.toAll(), 1+maxListed, "it is changed in place")
	edits := b.toAll()[0].Edits
	b.rounds(3)
	assert.Equal(t, edits, b.toAll()[0].Edits, "nothing is sent where nothing has changed")
	b.start() // another leader
	b.rounds(3)
	assert.Len(t, b.toAll(), 1+maxListed)
}

// TestMessagesBegin covers KR-17-07: another cause, a day later, and after the last was decided, a new message begins; a snoozed one has none.
func TestMessagesBegin(t *testing.T) {
	first, other, snoozed := held(1), held(2), held(3)
	other.Spec.Causes[0].Name, snoozed.Status.Snoozed = "xdatabases-other", true
	b := newBench(t, interceptor.Funcs{}, first, other, snoozed)
	b.rounds(2)
	assert.Len(t, b.toAll(), 2)
	require.NoError(t, b.client.Create(t.Context(), held(4)))
	b.rounds(2)
	assert.Len(t, b.toAll(), 4, "the first cause has a thread with two entries now")
	b.later(25 * time.Hour)
	require.NoError(t, b.client.Create(t.Context(), held(5)))
	b.rounds(2)
	assert.Len(t, b.toAll(), 5, "a message of its own")
	resolve := func(d *v1alpha1.Drift) { d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "it landed" }
	b.change(held(5), resolve)
	b.rounds(1)
	require.NoError(t, b.client.Create(t.Context(), held(6)))
	b.rounds(2)
	assert.Len(t, b.toAll(), 6, "the last was decided")
	b.change(held(5), func(d *v1alpha1.Drift) { // it occurs again
		d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &metav1.Time{Time: morning.Add(time.Hour)}}
	})
	b.rounds(2)
	assert.Len(t, b.toAll(), 8, "in the message that is open")
	b.later(2 * time.Minute)
	for _, d := range []*v1alpha1.Drift{first, other, held(4), held(5), held(6)} {
		b.change(d, resolve)
	}
	b.rounds(4)
	assert.Empty(t, b.stored(holdsMessage), "records of what is over are deleted")
}

// TestOutage covers KR-17-06 and KR-17-11: an hour without Slack, a revoked token: a condition shows it, and nothing is lost.
func TestOutage(t *testing.T) {
	for name, tc := range map[string]struct {
		failure slackfake.Failure
		why     string
	}{
		"Away":    {slackfake.Failure{Status: http.StatusServiceUnavailable}, "503"},
		"Revoked": {slackfake.Failure{Code: "token_revoked"}, "install the app again and use its new token"},
		"Removed": {slackfake.Failure{Code: "not_in_channel"}, "invite it there"},
	} {
		t.Run(name, func(t *testing.T) {
			d, e := held(1), held(2)
			b := newBench(t, interceptor.Funcs{}, d)
			require.NoError(t, b.slack.Fail(tc.failure))
			b.rounds(1)
			assert.Equal(t, metav1.ConditionFalse, b.ready().Status)
			assert.Contains(t, b.ready().Message, tc.why)
			calls := b.state().Calls["chat.postMessage"]
			b.rounds(5)
			assert.Equal(t, calls, b.state().Calls["chat.postMessage"], "it is left alone for a while")
			require.NoError(t, b.client.Create(t.Context(), e))
			b.change(d, func(d *v1alpha1.Drift) { d.Status.Phase, d.Status.Resolution = v1alpha1.DriftResolved, "it landed" })
			assert.Nil(t, b.delivery(d))
			require.NoError(t, b.slack.Fail(slackfake.Failure{}))
			b.leader.owes.Succeeded() // the hour is over
			b.rounds(2)
			require.NotNil(t, b.delivery(e))
			assert.Equal(t, metav1.ConditionTrue, b.ready().Status)
			shown := ""
			for _, m := range b.toAll() {
				shown += m.Blocks
			}
			assert.Contains(t, shown, "it landed")
		})
	}
}

// TestRateLimit covers KR-17-06: a time that Slack names is waited for, and everything is sent in the end.
func TestRateLimit(t *testing.T) {
	d := held(1)
	b := newBench(t, interceptor.Funcs{}, d)
	require.NoError(t, b.slack.Fail(slackfake.Failure{Status: http.StatusTooManyRequests, RetryAfter: 30, Times: 1}))
	b.rounds(1)
	assert.Greater(t, time.Until(b.leader.owes.Next()), 25*time.Second)
	b.rounds(3)
	assert.Empty(t, b.toAll())
	b.leader.owes.Succeeded()
	b.rounds(1)
	assert.Len(t, b.toAll(), 1)
}

// TestDies covers KR-17-07: a leader that ends after any message goes on there.
func TestDies(t *testing.T) {
	var drifts []*v1alpha1.Drift
	for n := range 12 {
		drifts = append(drifts, held(n))
	}
	b := newBench(t, interceptor.Funcs{}, drifts...)
	for range 6 {
		b.rounds(1)
		b.start()
	}
	assert.Len(t, b.toAll(), 13)
	for _, d := range drifts {
		require.NotNil(t, b.delivery(d))
	}
}

// TestCheck covers KR-17-11: one clear line at the start.
func TestCheck(t *testing.T) {
	b := newBench(t, interceptor.Funcs{})
	good := Tokens{Bot: slackfake.BotToken, App: slackfake.AppToken}
	for name, tc := range map[string]struct {
		tokens Tokens
		edit   func(*Config)
		want   string
	}{
		"Good":    {tokens: good},
		"Token":   {tokens: Tokens{Bot: "xoxb-other", App: slackfake.AppToken}, want: "the bot token: invalid_auth: Slack does not accept the token"},
		"Channel": {tokens: good, edit: func(c *Config) { c.Channel = "C0OTHER00" }, want: "channel C0OTHER00: channel_not_found"},
		"Team":    {tokens: good, edit: func(c *Config) { c.Workspace = "T0OTHER0" }, want: "the app is installed in T0FAKE00"},
		"User":    {tokens: good, edit: func(c *Config) { c.Users = map[string]Person{"U0NONE00": {User: "none"}} }, want: "users: U0NONE00 is no member"},
	} {
		t.Run(name, func(t *testing.T) {
			c := *b.config
			if tc.edit != nil {
				tc.edit(&c)
			}
			err := Check(t.Context(), Options{Config: &c, Tokens: tc.tokens, URL: b.server.URL + "/api/"})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Contains(t, err.Error(), tc.want)
			assert.False(t, strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "xoxb"), "one line, without the token")
			assert.False(t, passes(err))
		})
	}
}
