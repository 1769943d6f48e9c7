package slack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"github.com/kausality-io/function-kausality/channel"
)

// callTimeout of one call of Slack.
const callTimeout = 10 * time.Second

// api of Slack for one channel.
type api struct {
	client  *slack.Client
	channel string
}

// newAPI returns the API for the tokens; url is that of the Web API, empty for Slack's own.
func newAPI(t Tokens, channel, url string) *api {
	options := []slack.Option{slack.OptionAppLevelToken(t.App), slack.OptionHTTPClient(&http.Client{Timeout: callTimeout})}
	if url != "" {
		options = append(options, slack.OptionAPIURL(url))
	}
	return &api{client: slack.New(t.Bot, options...), channel: channel}
}

// options returns the options of a message: nothing in it is linked or unfolded.
func (m message) options(thread string) []slack.MsgOption {
	out := []slack.MsgOption{slack.MsgOptionText(m.text, false), slack.MsgOptionBlocks(m.blocks...), slack.MsgOptionDisableLinkUnfurl(),
		slack.MsgOptionDisableMediaUnfurl(), slack.MsgOptionParse(false)}
	if thread != "" {
		out = append(out, slack.MsgOptionTS(thread))
	}
	if m.broadcast {
		out = append(out, slack.MsgOptionBroadcast())
	}
	return out
}

// post posts a message, in a thread where that is not empty.
func (a *api) post(ctx context.Context, thread string, m message) (string, error) {
	_, ts, err := a.client.PostMessageContext(ctx, a.channel, m.options(thread)...)
	return ts, explained(err)
}

// update updates a message.
func (a *api) update(ctx context.Context, ts string, m message) error {
	_, _, _, err := a.client.UpdateMessageContext(ctx, a.channel, ts, m.options("")...) //nolint:dogsled // They are known.
	return explained(err)
}

// answer sends a user a message where only they see it.
func (a *api) answer(ctx context.Context, user, thread, text string) error {
	m := message{text: fallback(text), blocks: []slack.Block{richText(literal(cut(channel.Printable(text), maxCode), false))}}
	_, err := a.client.PostEphemeralContext(ctx, a.channel, user, m.options(thread)...)
	return explained(err)
}

// check checks that tokens, workspace, channel and users are good; the error is one line for the operator (KR-17-11).
func (a *api) check(ctx context.Context, c *Config) error {
	if err := a.accepted(ctx, c); err != nil || len(c.Users) == 0 {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.Users)) {
		if u, err := a.client.GetUserInfoContext(ctx, id); isCode(err, "user_not_found") || err == nil && u.Deleted {
			return fmt.Errorf("users: %s is no member of the workspace", id)
		}
	}
	return nil
}

// accepted reports that Slack accepts the bot token, for the workspace and the channel.
func (a *api) accepted(ctx context.Context, c *Config) error {
	who, err := a.client.AuthTestContext(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the bot token: %w", explained(err))
	case who.TeamID != c.Workspace && who.EnterpriseID != c.Workspace:
		return fmt.Errorf("workspace: the app is installed in %s, not in %s", who.TeamID, c.Workspace)
	}
	in, err := a.client.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: c.Channel})
	switch {
	case isCode(err, "missing_scope"):
	case err != nil:
		return fmt.Errorf("channel %s: %w", c.Channel, explained(err))
	case in.IsArchived:
		return fmt.Errorf("channel %s: it is archived", c.Channel)
	case !in.IsMember:
		return fmt.Errorf("channel %s: the app is not in it; invite it there by /invite", c.Channel)
	}
	return nil
}

// hints for errors of Slack by their codes.
var hints = map[string]string{
	"invalid_auth":      "Slack does not accept the token; copy it again from the app's pages OAuth & Permissions and Basic Information",
	"not_authed":        "Slack does not accept the token; copy it again from the app's pages OAuth & Permissions and Basic Information",
	"account_inactive":  "the app was removed from the workspace; install it again and use its new token",
	"token_revoked":     "the token was revoked; install the app again and use its new token",
	"token_expired":     "the token has expired; turn token rotation off for this app",
	"channel_not_found": "there is no such channel, or it is private and the app is not in it",
	"not_in_channel":    "the app is not in the channel; invite it there by /invite",
	"is_archived":       "the channel is archived",
	"missing_scope":     "the app has not all scopes of the manifest in docs/slack.md",
}

// codeOf returns the code of an error of Slack; empty for any other.
func codeOf(err error) string {
	code, _ := errors.AsType[slack.SlackErrorResponse](err)
	return code.Err
}

// explained is an error of Slack with what to do about it. It contains no token.
func explained(err error) error {
	if hint := hints[codeOf(err)]; hint != "" {
		return fmt.Errorf("%w: %s", err, hint)
	}
	return err
}

// refusal counts an error that remains until the app or one of its tokens is changed, by that token.
func refusal(token string, err error) {
	if isPermanent(err) {
		refusals.WithLabelValues(token, codeOf(err)).Inc()
	}
}

// isCode reports whether an error of Slack has one of some codes.
func isCode(err error, codes ...string) bool { return slices.Contains(codes, codeOf(err)) }

// isGone reports whether an error of Slack is that a message, or the one that a thread begins with, was deleted there or cannot be changed any more.
func isGone(err error) bool {
	return isCode(err, "message_not_found", "thread_not_found", "cannot_reply_to_message", "cant_update_message", "edit_window_closed")
}

// isPermanent reports whether an error of Slack remains until the configuration or the app in Slack is changed.
func isPermanent(err error) bool { return hints[codeOf(err)] != "" }

// retryAfter returns how long Slack is to be left alone; zero where it names no time.
func retryAfter(err error) time.Duration {
	if limited := (*slack.RateLimitedError)(nil); errors.As(err, &limited) {
		return limited.RetryAfter
	}
	return 0
}

// passes reports whether an error of Slack may pass without a change: that it cannot be reached, or is busy.
func passes(err error) bool {
	var failed net.Error
	var status slack.StatusCodeError
	return errors.As(err, &failed) || retryAfter(err) > 0 || errors.As(err, &status) && status.Code >= http.StatusInternalServerError ||
		isCode(err, "internal_error", "fatal_error", "service_unavailable", "ratelimited", "request_timeout")
}
