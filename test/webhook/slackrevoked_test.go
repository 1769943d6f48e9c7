package webhook

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// TestSlackRevoked covers KR-17-11 with the roles that the process prints: a token that is revoked while it runs is a condition of the DriftReceiver and
// is counted; all is well once Slack accepts the token again; and another token ends the process.
func TestSlackRevoked(t *testing.T) {
	r := newSlackRights(t, "slackrevoked", "")
	config := r.config(persons(memberHans, hans, approvers))
	r.grant(config)
	r.awaitForm("", hans)
	r.run(config, 1, "")
	r.approves(r.held())
	r.awaitSlackReceiver("True", "Delivered", "")

	require.NoError(t, r.slack.Fail(slackfake.Failure{Code: "token_revoked", Methods: []string{"apps.connections.open"}}))
	require.NoError(t, r.slack.Disconnect())
	r.awaitSlackReceiver("False", "DecisionsNotReceived", "the token was revoked")
	r.counted("app")
	require.NoError(t, r.slack.Fail(slackfake.Failure{}))
	r.awaitSlackReceiver("True", "Delivered", "")

	require.NoError(t, r.slack.Fail(slackfake.Failure{Code: "token_revoked"})) // nothing is to be sent: it is found by itself
	r.awaitSlackReceiver("False", "DeliveryFailed", "the bot token: token_revoked: the token was revoked")
	r.counted("bot")
	require.NoError(t, r.slack.Fail(slackfake.Failure{}))
	r.awaitSlackReceiver("True", "Delivered", "")
	r.approves(r.held())

	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "bot"), []byte("xoxb-other"), 0o600))
	wait.For(t, "the process to end", wait.Patience, func(context.Context) error {
		select {
		case <-r.replicas[0].Done():
			return nil
		default:
			return errors.New("it runs")
		}
	})
	require.ErrorContains(t, r.replicas[0].Err(), "the tokens have changed")
}

// counted: the metric has refusals of a token.
func (r *slackRights) counted(token string) {
	r.t.Helper()
	body, err := get(r.metrics)
	require.NoError(r.t, err)
	assert.Contains(r.t, body, fmt.Sprintf("kausality_slack_refusals_total{code=\"token_revoked\",token=%q}", token))
}
