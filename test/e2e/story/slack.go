package story

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/channel"
	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/installation"
)

// memberAlice is alice's account in the workspace, the only one that is mapped to a user.
const memberAlice = "U0ALICE0"

// slackConfig of kausality notify slack.
const slackConfig = "channel: " + slackfake.Channel + "\nworkspace: " + slackfake.Team + "\nclusterName: story\nusers: {" +
	memberAlice + ": {user: " + Alice + "}}\n"

// startSlack starts a fake Slack and kausality notify slack with the rights that it prints, and waits until it is connected.
func (e *Env) startSlack(ctx context.Context) error {
	built, err := parts.Ensure(ctx, e.Options.Out, "", parts.FakeSlack)
	if err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	e.slack = slackfake.Driver{URL: "http://" + address}
	if _, err := e.Serve(ctx, parts.FakeSlack, exec.Command(built[parts.FakeSlack], "--address="+address)); err != nil {
		return err
	}
	dir := filepath.Join(e.Dir(), "slack")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{"config.yaml": slackConfig, "bot": slackfake.BotToken, "app": slackfake.AppToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	config := "--config-file=" + filepath.Join(dir, "config.yaml")
	if err := e.applyOutput(ctx, "notify", "slack", config, "--print-roles"); err != nil {
		return err
	}
	kubeconfig, err := e.ServiceAccountKubeconfig(ctx, home, "kausality-slack", installation.Nothing)
	if err != nil {
		return err
	}
	if err := controlplane.Eventually(ctx, "the fake Slack to answer", 30*time.Second, func(context.Context) error {
		return e.slack.AddUser(map[string]any{"id": memberAlice, "team_id": slackfake.Team})
	}); err != nil {
		return err
	}
	if _, err := e.Serve(ctx, "kausality-slack", exec.Command(e.Bins[parts.Kausality], "notify", "slack", "--kubeconfig="+kubeconfig, config,
		"--bot-token-file="+filepath.Join(dir, "bot"), "--app-token-file="+filepath.Join(dir, "app"), "--slack-api-url="+e.slack.URL+"/api/")); err != nil {
		return err
	}
	return controlplane.Eventually(ctx, "kausality notify slack to be connected", 30*time.Second, func(context.Context) error {
		state, err := e.slack.State()
		if err == nil && state.Sockets == 0 {
			err = errors.New("there is no connection")
		}
		return err
	})
}

// InSlack waits until Slack shows a change as it is stored, with a button that approves it.
func (e *Env) InSlack(ctx context.Context, d *v1alpha1.Drift) (shown *slackfake.Message, err error) {
	button := "|" + d.Namespace + "|" + d.Name + "|" + channel.Fingerprint(d)
	err = until(ctx, "Slack to show drift "+d.Name, func(context.Context) error {
		state, err := e.slack.State()
		if err != nil {
			return err
		}
		for _, m := range state.Messages {
			if block, _ := m.Block(); strings.HasSuffix(block, button) {
				shown = m
				return nil
			}
		}
		return fmt.Errorf("there are %d messages", len(state.Messages))
	})
	return shown, err
}

// ClickApprove clicks the button of a message as alice. Slack has its acknowledgement once it returns.
func (e *Env) ClickApprove(m *slackfake.Message) error {
	block, _ := m.Block()
	ack, err := e.slack.Click(slackfake.Click{User: memberAlice, Team: slackfake.Team, TS: m.TS, Block: block,
		Action: "kausality:" + string(channel.ActionApprove)})
	if err == nil && ack.Error != "" {
		err = fmt.Errorf("the click: %s", ack.Error)
	}
	return err
}

// answeredInSlack waits for a message that alice alone sees, and returns its text.
func (e *Env) answeredInSlack(ctx context.Context, about string) (answer string, err error) {
	err = until(ctx, "Slack to answer", func(context.Context) error {
		state, err := e.slack.State()
		if err != nil {
			return err
		}
		var all []string
		for _, m := range state.Messages {
			if m.Ephemeral != memberAlice {
				continue
			}
			if answer = messageText(m); strings.Contains(answer, about) {
				return nil
			}
			all = append(all, answer)
		}
		return fmt.Errorf("the answers are %q", all)
	})
	return answer, err
}
