package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// members of the workspace: eve may do nothing in the cluster, and mallory is not in the configuration.
const (
	memberHans, memberAnna, memberEve, memberMallory = "U0HANS00", "U0ANNA00", "U0EVE000", "U0MALLOR"
	anna, eve                                        = "anna@example.com", "eve@example.com"
)

// slackBench is replicas of kausality notify slack with a fake Slack.
type slackBench struct {
	*fixture
	slack    slackfake.Driver
	replicas []*controlplane.Process
	// kubeconfig of the replicas, their directory with the tokens, and the metrics of the last of them.
	kubeconfig, dir, metrics string
}

// TestSlack covers KR-17-03, KR-17-06, KR-17-08 and KR-17-09 on a real API server with the real webhook: two users vote by clicks, the second
// after the replica that worked off the first has ended; who may not is informed; the hop names both with their way.
func TestSlack(t *testing.T) {
	f := startFleet(t, "slack", options{replicas: 1})
	s := newFixture(t, f, "slack")
	write(t, approvalRules, policy(t, "ApprovalRule", "slack", "match: {namespaces: [slack]}\nrequire: [{count: 2}]"))
	b := startSlack(t, s)
	s.settled("part")
	var id string
	wait.For(t, "the rule to be in force", wait.Patience, func(context.Context) error {
		err := s.count(s.ctrl, "part", 5)
		if id = mustRefuse(t, err, "Drift"); !strings.Contains(err.Error(), "0 of 2 approvals") {
			return err
		}
		return nil
	})
	m := b.message(id, "0 of 2 approvals")
	b.click(memberMallory, m)
	b.answered(memberMallory, "is not in the configuration")
	b.click(memberEve, m)
	b.answered(memberEve, eve+" may not do that")
	b.click(memberHans, m)
	b.click(memberHans, m)
	b.answered(memberHans, "approved by "+hans)
	require.True(t, refused(s.count(s.ctrl, "part", 5), "Drift"), "one vote is not enough")
	first := m.TS
	m = b.message(id, "1 of 2 approvals")
	assert.Equal(t, first, m.TS, "the message is changed in place")

	b.replicas[0].Stop()
	b.click(memberAnna, m)
	b.answered(memberAnna, "approved by "+anna+". The change is allowed.")
	wait.For(t, "the approved change to pass", wait.Patience, func(context.Context) error { return s.count(s.ctrl, "part", 5) })
	s.awaitDrift(id, "to be shown in Slack as over", func(d *unstructured.Unstructured) bool { return fmt.Sprint(delivery(d)["phase"]) == "Resolved" })
	part, err := s.of(s.hans).Get(t.Context(), "part", metav1.GetOptions{})
	require.NoError(t, err)
	hop, err := hopOf(part)
	require.NoError(t, err)
	require.NotNil(t, hop.Approval)
	var by []string
	for _, v := range hop.Approval.By {
		by = append(by, v.User+" via "+v.Via)
	}
	slices.Sort(by)
	assert.Equal(t, []string{anna + " via slack", hans + " via slack"}, by)
	s.awaitSlackReceiver("True", "Delivered", "")
}

// startSlack with the rights that it prints for its configuration, and wait until both replicas are connected.
func startSlack(t *testing.T, s *fixture) *slackBench {
	t.Helper()
	b := newSlackBench(t, s)
	config := b.config(fmt.Sprintf("users: {%s: {user: %s}, %s: {user: %s}, %s: {user: %s}}", memberHans, hans, memberAnna, anna, memberEve, eve))
	b.grant(config)
	for _, user := range []string{hans, anna} {
		b.mayPatch(user)
	}
	b.run(config, 2, "")
	return b
}

// newSlackBench has a fake Slack with members, and no replica.
func newSlackBench(t *testing.T, s *fixture) *slackBench {
	t.Helper()
	port, err := controlplane.FreePort()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	built, err := parts.Ensure(t.Context(), os.Stderr, "", parts.FakeSlack)
	require.NoError(t, err)
	server, err := the.Run(context.Background(), parts.FakeSlack, exec.Command(built[parts.FakeSlack], "--address="+address))
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	b := &slackBench{fixture: s, slack: slackfake.Driver{URL: "http://" + address}}
	wait.For(t, "the fake Slack", wait.Patience, func(context.Context) error { _, err := b.slack.State(); return err })
	for _, m := range []string{memberHans, memberAnna, memberEve} {
		require.NoError(t, b.slack.AddUser(map[string]any{"id": m, "team_id": slackfake.Team}))
	}
	return b
}

// config is a file with a configuration: the channel, and what else it is to have.
func (b *slackBench) config(fields string) string {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "config.yaml")
	text := fmt.Sprintf("channel: %s\nworkspace: %s\nclusterName: test\n%s\n", slackfake.Channel, slackfake.Team, fields)
	require.NoError(b.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// run replicas as their ServiceAccount, and wait until they are connected. server is the URL of the API server, empty for the first.
func (b *slackBench) run(config string, replicas int, server string) {
	b.t.Helper()
	b.dir = b.t.TempDir()
	kubeconfig, err := the.ServiceAccountKubeconfig(b.t.Context(), home, "kausality-slack",
		rbacv1.PolicyRule{APIGroups: []string{"kausality.io"}, Resources: []string{"drifts"}, Verbs: []string{"get"}})
	require.NoError(b.t, err)
	raw, err := os.ReadFile(kubeconfig)
	require.NoError(b.t, err)
	if server != "" {
		raw = []byte(strings.ReplaceAll(string(raw), the.Config().Host, server))
	}
	b.kubeconfig = filepath.Join(b.dir, "kubeconfig")
	for file, text := range map[string]string{"kubeconfig": string(raw), "bot": slackfake.BotToken, "app": slackfake.AppToken} {
		require.NoError(b.t, os.WriteFile(filepath.Join(b.dir, file), []byte(text), 0o600))
	}
	for _, p := range b.replicas {
		p.Stop()
	}
	b.replicas = nil
	for i := range replicas {
		port, err := controlplane.FreePort()
		require.NoError(b.t, err)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		b.metrics = "http://" + address + "/metrics"
		p, err := the.Run(context.Background(), fmt.Sprintf("notifier-%d", i), exec.Command(the.kausality, "notify", "slack",
			"--kubeconfig="+b.kubeconfig, fmt.Sprintf("--leader-elect=%t", replicas > 1), "--config-file="+config,
			"--bot-token-file="+filepath.Join(b.dir, "bot"), "--app-token-file="+filepath.Join(b.dir, "app"), "--slack-api-url="+b.slack.URL+"/api/",
			"--metrics-bind-address="+address))
		require.NoError(b.t, err)
		b.t.Cleanup(p.Stop)
		b.replicas = append(b.replicas, p)
	}
	wait.For(b.t, "all replicas to be connected", wait.Patience, func(context.Context) error {
		state, err := b.slack.State()
		if err == nil && state.Sockets != replicas {
			err = fmt.Errorf("%d connections", state.Sockets)
			for _, p := range b.replicas {
				err = errors.Join(err, p.Err())
			}
		}
		return err
	})
}

// grant the process what it prints for a configuration.
func (b *slackBench) grant(config string) {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), the.kausality, "notify", "slack", "--config-file="+config, "--print-roles").Output()
	require.NoError(b.t, err)
	objects, err := controlplane.Decode(out)
	require.NoError(b.t, err)
	a, err := controlplane.NewApplier(the.Config(), "kubectl")
	require.NoError(b.t, err)
	all := make([]any, 0, len(objects))
	for _, o := range objects {
		all = append(all, o)
	}
	require.NoError(b.t, a.Objects(b.t.Context(), all...))
}

// mayPatch grants a user to write parents, and to read.
func (b *slackBench) mayPatch(user string) {
	b.t.Helper()
	require.NoError(b.t, the.Grant(b.t.Context(), user,
		rbacv1.PolicyRule{APIGroups: []string{b.name + groupSuffix}, Resources: []string{"apps"}, Verbs: []string{"get", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{b.name + groupSuffix}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		rbacv1.PolicyRule{APIGroups: []string{"kausality.io", "admissionregistration.k8s.io", ""}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
}

// message with buttons for a difference, once it has a text.
func (b *slackBench) message(id, text string) (found *slackfake.Message) {
	b.t.Helper()
	wait.For(b.t, "a message with "+text, wait.Patience, func(context.Context) error {
		state, err := b.slack.State()
		if err != nil {
			return err
		}
		for _, m := range state.Messages {
			if block, _ := m.Block(); m.Ephemeral == "" && strings.Contains(block, id) && strings.Contains(m.Blocks, text) {
				found = m
				return nil
			}
		}
		raw, _ := json.Marshal(state.Messages)
		return fmt.Errorf("there are %s", raw)
	})
	return found
}

// click of a member on Approve: it is acknowledged in time.
func (b *slackBench) click(member string, m *slackfake.Message) {
	b.t.Helper()
	block, _ := m.Block()
	ack, err := b.slack.Click(slackfake.Click{User: member, Team: slackfake.Team, TS: m.TS, Block: block, Action: "kausality:approve"})
	require.NoError(b.t, err)
	require.Empty(b.t, ack.Error)
}

// answered: the member is by a message that no other member sees.
func (b *slackBench) answered(member, text string) {
	b.t.Helper()
	wait.For(b.t, "an answer for "+member, wait.Patience, func(context.Context) error {
		if have := b.answers(member); !strings.Contains(strings.Join(have, "\n"), text) {
			return fmt.Errorf("the answers are %q", have)
		}
		return nil
	})
}

// answers that only a member sees.
func (b *slackBench) answers(member string) (out []string) {
	b.t.Helper()
	state, err := b.slack.State()
	require.NoError(b.t, err)
	for _, m := range state.Messages {
		if m.Ephemeral == member {
			out = append(out, m.Blocks)
		}
	}
	return out
}

// awaitSlackReceiver until the condition of the DriftReceiver has a status and a reason, and its message a text.
func (s *fixture) awaitSlackReceiver(status, reason, text string) {
	s.t.Helper()
	wait.For(s.t, "the DriftReceiver to be "+status+" with "+reason, 2*wait.Patience, func(ctx context.Context) error {
		o, err := s.hans.Resource(driftReceivers).Get(ctx, "kausality-slack-slack", metav1.GetOptions{})
		if err != nil {
			return err
		}
		all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
		if err != nil || len(all) != 1 {
			return fmt.Errorf("the conditions are %v: %w", all, err)
		}
		c, _ := all[0].(map[string]any)
		if c["status"] != status || c["reason"] != reason || !strings.Contains(fmt.Sprint(c["message"]), text) {
			return fmt.Errorf("it is %v", c)
		}
		return nil
	})
}
