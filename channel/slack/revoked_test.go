package slack

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
)

// TestRevoked covers KR-17-11: a token that is revoked while nothing is held is a condition with the reason and is counted, and is none any more once
// Slack accepts it again.
func TestRevoked(t *testing.T) {
	revoked := func(methods ...string) slackfake.Failure {
		return slackfake.Failure{Code: "token_revoked", Methods: methods}
	}
	t.Run("Bot", func(t *testing.T) {
		b := newBench(t, interceptor.Funcs{})
		b.rounds(1)
		assert.Equal(t, metav1.ConditionUnknown, b.ready().Status, "nothing was sent")
		calls := b.state().Calls["auth.test"]
		b.rounds(3)
		assert.Equal(t, calls, b.state().Calls["auth.test"], "Slack is tried once a minute")
		counted := testutil.ToFloat64(refusals.WithLabelValues("bot", "token_revoked"))
		require.NoError(t, b.slack.Fail(revoked()))
		b.later(probeEvery)
		b.rounds(1)
		assert.Equal(t, metav1.ConditionFalse, b.ready().Status)
		assert.Equal(t, v1alpha1.ReasonDeliveryFailed, b.ready().Reason)
		assert.Contains(t, b.ready().Message, "the bot token: token_revoked: the token was revoked; install the app again and use its new token")
		assert.InDelta(t, counted+1, testutil.ToFloat64(refusals.WithLabelValues("bot", "token_revoked")), 0)
		b.start() // another leader
		b.rounds(1)
		assert.Equal(t, metav1.ConditionFalse, b.ready().Status)
		require.NoError(t, b.slack.Fail(slackfake.Failure{}))
		b.later(probeEvery)
		b.rounds(1)
		assert.Equal(t, metav1.ConditionTrue, b.ready().Status)
		assert.Equal(t, v1alpha1.ReasonDelivered, b.ready().Reason)
	})
	t.Run("App", func(t *testing.T) {
		d := held(1)
		b := newBench(t, interceptor.Funcs{}, d)
		b.connect()
		b.rounds(1)
		assert.Equal(t, metav1.ConditionTrue, b.ready().Status)
		counted := testutil.ToFloat64(refusals.WithLabelValues("app", "token_revoked"))
		require.NoError(t, b.slack.Fail(revoked("apps.connections.open")))
		require.NoError(t, b.slack.Disconnect())
		b.changed.Until(t, "the connection to be lost", func() bool { return b.socket.link.failure() != nil })
		require.NoError(t, b.client.Create(t.Context(), held(2)))
		b.rounds(2)
		require.NotNil(t, b.delivery(held(2)), "messages are sent")
		assert.Equal(t, metav1.ConditionFalse, b.ready().Status)
		assert.Equal(t, v1alpha1.ReasonDecisionsNotReceived, b.ready().Reason)
		assert.Contains(t, b.ready().Message, "token_revoked: the token was revoked")
		assert.Greater(t, testutil.ToFloat64(refusals.WithLabelValues("app", "token_revoked")), counted)
		assert.Zero(t, testutil.ToFloat64(connected))
		require.NoError(t, b.slack.Fail(slackfake.Failure{}))
		b.changed.Until(t, "the connection to be made again", func() bool { return b.socket.link.failure() == nil })
		b.rounds(1)
		assert.Equal(t, metav1.ConditionTrue, b.ready().Status)
		assert.InDelta(t, 1, testutil.ToFloat64(connected), 0)
	})
	t.Run("Replaced", func(t *testing.T) {
		used := Tokens{Bot: "xoxb-1", App: "xapp-1"}
		read := make(chan Tokens, 2)
		w := &tokenWatch{used: used, every: time.Millisecond, read: func() (Tokens, error) { return <-read, nil }}
		read <- used
		read <- Tokens{Bot: "xoxb-2", App: "xapp-1"}
		err := w.Start(t.Context())
		require.ErrorContains(t, err, "the tokens have changed")
		assert.NotContains(t, err.Error(), "xoxb")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, (&tokenWatch{used: used, every: time.Hour}).Start(over))
	})
}
