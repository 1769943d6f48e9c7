package changes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kausality-io/function-kausality/channel/slack/slackfake"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/installation"
	"github.com/kausality-io/function-kausality/test/operations/site"
)

const memberHans = "U0HANS00"

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	receivers   = schema.GroupVersionResource{Group: "kausality.io", Version: "v1alpha1", Resource: "driftreceivers"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
)

// slackInstalled is Slack as the chart installs it, with a fake of Slack.
type slackInstalled struct {
	t *testing.T
	*slackfake.Server
	slackfake.Driver
	// values is the file with the values that docs/slack.md has.
	values, dir string
}

// TestSlack: with the values of docs/slack.md Slack shows what is held, and takes clicks; with other values it takes them by HTTP, in new Pods; without it
// the other components stay as they are, and of it nothing but its record of what was delivered remains.
func TestSlack(t *testing.T) {
	the.Own(t)
	ns := the.Namespace(t, "slack")
	the.Policy(t, "shop", map[string]any{"mode": "enforce"})
	the.Guarded(t, ns)
	the.Played(t, ns, "lone", nil)
	the.ClosedGate(t, ns, "lone")
	collector := the.As(t, "system:serviceaccount:kube-system:generic-garbage-collector").Resource(site.Databases).Namespace(ns)
	if err := collector.Delete(t.Context(), "lone", site.Forget); !kerrors.IsForbidden(err) {
		t.Fatalf("want it forbidden, got %v", err)
	}
	id := the.ExternalDrift(t, "lone")
	s := newSlackInstalled(t)
	before := pods(t, "webhook")

	s.upgrade("slack.enabled=true")
	p := s.start()
	s.snooze(id, ns, "1h")
	s.delivered()
	first := s.checksum()
	p.Stop()

	s.upgrade("slack.interactivity.enabled=true", "slack.config.timeZone=Europe/Berlin")
	assert.NotEqual(t, first, s.checksum(), "the configuration is read by new Pods")
	p = s.start()
	s.snooze(id, ns, "8h")
	p.Stop()

	s.upgrade("slack.enabled=false")
	_, err := the.Admin.Resource(deployments).Namespace(site.Home).Get(t.Context(), "kausality-slack", metav1.GetOptions{})
	require.True(t, kerrors.IsNotFound(err), err)
	_, err = the.Admin.Resource(roles).Get(t.Context(), "kausality-slack", metav1.GetOptions{})
	require.True(t, kerrors.IsNotFound(err), err)
	assert.Equal(t, before, pods(t, "webhook"), "the Pods of the webhook stay")
}

// newSlackInstalled has a Secret with tokens and a file with values, and nothing installed.
func newSlackInstalled(t *testing.T) *slackInstalled {
	t.Helper()
	fake := &slackfake.Server{PerSecond: 5, Burst: 10}
	served := httptest.NewServer(fake)
	t.Cleanup(served.Close)
	fake.URL = served.URL
	s := &slackInstalled{t: t, Server: fake, Driver: slackfake.Driver{URL: served.URL}, dir: t.TempDir()}
	require.NoError(t, the.Grant(t.Context(), site.Hans,
		rbacv1.PolicyRule{APIGroups: []string{"shop.example.org"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{"kausality.io", "admissionregistration.k8s.io", ""}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}))
	require.NoError(t, s.AddUser(map[string]any{"id": memberHans, "team_id": slackfake.Team}))
	s.values = filepath.Join(s.dir, "values.yaml")
	require.NoError(t, os.WriteFile(s.values, fmt.Appendf(nil, `
slack:
  tokensSecretName: kausality-slack
  config:
    channel: %s
    workspace: %s
    users:
      %s: {user: %s}
`, slackfake.Channel, slackfake.Team, memberHans, site.Hans), 0o600))
	o := site.Object("v1", "Secret", site.Home, "kausality-slack", nil)
	delete(o.Object, "spec")
	o.Object["stringData"] = map[string]any{"bot-token": slackfake.BotToken, "app-token": slackfake.AppToken, "signing-secret": slackfake.SigningSecret}
	_, err := the.Admin.Resource(site.Secrets).Namespace(site.Home).Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = the.Admin.Resource(site.Secrets).Namespace(site.Home).Delete(context.Background(), "kausality-slack", metav1.DeleteOptions{})
	})
	return s
}

// upgrade the release with values in addition to those that it has.
func (s *slackInstalled) upgrade(values ...string) {
	s.t.Helper()
	_, err := the.RunHelm(s.t.Context(), "upgrade", "kausality", the.Chart(), "--reset-then-reuse-values",
		"--values", s.values, "--set", strings.Join(values, ","))
	require.NoError(s.t, err)
}

// start a process as the Deployment has it, with its files as a kubelet mounts them, and wait until it is ready.
func (s *slackInstalled) start() *installation.Process {
	s.t.Helper()
	args, err := installation.Args(s.t.Context(), the.Admin, "slack")
	require.NoError(s.t, err)
	m, secret := corev1.ConfigMap{}, corev1.Secret{}
	s.read(configMaps, &m)
	s.read(site.Secrets, &secret)
	files := maps.Clone(secret.Data)
	files["config.yaml"] = []byte(m.Data["config.yaml"])
	for name, content := range files {
		require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), content, 0o600))
	}
	for i, a := range args {
		if flag, file, ok := strings.Cut(a, "=/etc/kausality/"); ok {
			args[i] = flag + "=" + filepath.Join(s.dir, filepath.Base(file))
		}
	}
	kubeconfig, err := the.KubeconfigOf(s.t.Context(), "slack")
	require.NoError(s.t, err)
	p := &installation.Process{}
	for _, a := range []*string{&p.Address, &p.Probe, &p.Metrics} {
		*a, err = installation.FreeAddress()
		require.NoError(s.t, err)
	}
	args = append(args, "--kubeconfig="+kubeconfig, "--health-probe-bind-address="+p.Probe, "--metrics-bind-address="+p.Metrics,
		"--slack-api-url="+s.Driver.URL+"/api/")
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--signing-secret-file=") }) {
		args = append(args, "--interactivity-bind-address="+p.Address)
		s.Requests = "http://" + p.Address + "/slack/interactivity"
	}
	p.Process, err = the.Run(context.WithoutCancel(s.t.Context()), "slack", exec.Command(the.Kausality, args...))
	require.NoError(s.t, err)
	s.t.Cleanup(p.Stop)
	require.NoError(s.t, p.Await(s.t.Context()))
	return p
}

// read an object of Slack.
func (s *slackInstalled) read(r schema.GroupVersionResource, into any) {
	s.t.Helper()
	o, err := the.Admin.Resource(r).Namespace(site.Home).Get(s.t.Context(), "kausality-slack", metav1.GetOptions{})
	require.NoError(s.t, err)
	require.NoError(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into))
}

// snooze a change in Slack, once its message is posted, as hans.
func (s *slackInstalled) snooze(id, ns, until string) {
	s.t.Helper()
	databases := the.Admin.Resource(site.Databases).Namespace(ns)
	was, err := databases.Get(s.t.Context(), "lone", metav1.GetOptions{})
	require.NoError(s.t, err)
	wait.For(s.t, "the change to be snoozed in Slack", 2*wait.Patience, func(context.Context) error {
		state, err := s.State()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(state.Messages, func(m *slackfake.Message) bool {
			block, _ := m.Block()
			return m.Ephemeral == "" && strings.Contains(block, id)
		})
		if i < 0 {
			return fmt.Errorf("there are %d messages", len(state.Messages))
		}
		block, _ := state.Messages[i].Block()
		ack, err := s.Click(slackfake.Click{User: memberHans, Team: slackfake.Team, TS: state.Messages[i].TS, Block: block, Action: "kausality:snooze", Value: until})
		if err != nil || ack.Error != "" {
			return errors.Join(err, errors.New(ack.Error))
		}
		return nil
	})
	wait.For(s.t, "the snooze to be written", wait.Patience, func(ctx context.Context) error {
		o, err := databases.Get(ctx, "lone", metav1.GetOptions{})
		if err == nil && o.GetAnnotations()["kausality.io/snooze"] == was.GetAnnotations()["kausality.io/snooze"] {
			state, failed := s.State()
			err = fmt.Errorf("the annotations are %v, the last message %v: %w", o.GetAnnotations(), state.Messages[len(state.Messages)-1], failed)
		}
		return err
	})
}

// delivered waits until the DriftReceiver reports that Slack gets what is held.
func (s *slackInstalled) delivered() {
	s.t.Helper()
	wait.For(s.t, "Slack to be a receiver", 2*wait.Patience, func(ctx context.Context) error {
		list, err := the.Admin.Resource(receivers).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
			if strings.HasPrefix(list.Items[i].GetName(), "kausality-slack") && len(conditions) == 1 && conditions[0].(map[string]any)["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("they are %v", list.Items)
	})
}

// checksum of the configuration that the Pods have.
func (s *slackInstalled) checksum() string {
	s.t.Helper()
	o, err := the.Admin.Resource(deployments).Namespace(site.Home).Get(s.t.Context(), "kausality-slack", metav1.GetOptions{})
	require.NoError(s.t, err)
	sum, _, err := unstructured.NestedString(o.Object, "spec", "template", "metadata", "annotations", "kausality.io/config-checksum")
	require.NoError(s.t, err)
	require.NotEmpty(s.t, sum)
	return sum
}
