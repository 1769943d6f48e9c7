package operations

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
	"github.com/kausality-io/function-kausality/test/installation"
)

// chart of the repository.
func (l *environment) chart() string { return filepath.Join(l.root, "package", "helm", "kausality") }

// run helm as the installing user.
func (l *environment) run(ctx context.Context, args ...string) ([]byte, error) {
	return l.helm.Run(ctx, args...)
}

const quickServing, quickAuthority = "20s", "45s"

// quick values: days become seconds. The policy for authors, which always guards something, is left to TestAuthors.
var quick = []string{
	"--set", "traceAuthors=false", "--set", "gate.creationGrace=0s", "--set", "webhook.shutdownDelay=2s", "--set", "webhook.settleGrace=1s",
	"--set", "certificates.certificateLifetime=" + quickServing, "--set", "certificates.authorityLifetime=" + quickAuthority,
}

// earlier is a copy of the chart as an earlier version: its CRD has fewer fields.
func (l *environment) earlier() (dir string, err error) {
	dir = filepath.Join(l.Dir(), "earlier-chart")
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(l.chart()))); err != nil {
		return "", err
	}
	for name, edit := range map[string][2]string{
		"Chart.yaml": {"\nversion: ", "\nversion: 0.0.1-before-"}, "files/crds/kausality.io_kausalities.yaml": {newColumn, ""},
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		changed := bytes.Replace(raw, []byte(edit[0]), []byte(edit[1]), 1)
		if bytes.Equal(raw, changed) {
			return "", fmt.Errorf("%s has no %q: %w", name, edit[0], fs.ErrNotExist)
		}
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// install a chart with Helm, as in docs/install.md, and start what a kubelet would
// start, with two replicas of the webhook.
func (l *environment) install(ctx context.Context, chart string, values ...string) error {
	if err := l.reachable(); err != nil {
		return err
	}
	args, err := l.documented(chart)
	if err != nil {
		return err
	}
	args = append(append(args, quick...), values...)
	if !l.services {
		args = append(args, "--set", "webhook.url=https://"+l.balancer.address)
	}
	if _, err := l.run(ctx, args...); err != nil {
		return err
	}
	l.release = chart
	if l.services {
		if err := l.serve(ctx); err != nil {
			return err
		}
	}
	return l.startAll(ctx)
}

// reachable: where there is no Service, the address of the webhook is known
// before it is installed.
func (l *environment) reachable() (err error) {
	if !l.services && l.balancer == nil {
		l.balancer, err = newBalancer("127.0.0.1:0")
	}
	return err
}

// serve the webhook's Service at the address that the API server gave it.
func (l *environment) serve(ctx context.Context) error {
	s, err := l.admin.Resource(services).Namespace(home).Get(ctx, "kausality-webhook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	ip, _, err := unstructured.NestedString(s.Object, "spec", "clusterIP")
	if err != nil {
		return err
	}
	ports, _, err := unstructured.NestedSlice(s.Object, "spec", "ports")
	if err != nil || len(ports) != 1 {
		return errors.Join(err, fmt.Errorf("the Service has the ports %v", ports))
	}
	l.balancer, err = newBalancer(fmt.Sprintf("%s:%v", ip, ports[0].(map[string]any)["port"]))
	return err
}

func (l *environment) startAll(ctx context.Context) (err error) {
	l.webhooks = nil
	if l.controller, err = l.start(ctx, "controller", 0); err != nil {
		return err
	}
	for i := range 2 {
		p, err := l.start(ctx, "webhook", i)
		if err != nil {
			return err
		}
		l.webhooks = append(l.webhooks, p)
		l.balancer.add(p.Address, func() bool { return p.Ready(context.Background()) == nil })
	}
	if l.gate, err = l.start(ctx, "gate", 0); err != nil {
		return err
	}
	for _, p := range l.all() {
		if err := p.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// all processes of ours.
func (l *environment) all() []*process {
	return append([]*process{l.controller, l.gate}, l.webhooks...)
}

// newColumn is what the CRD of the version before does not have.
const newColumn = "    - jsonPath: .status.managedResources\n      name: Managed\n      type: integer\n"

// pods of a component, by UID: those that run are the same before and after
// where nothing had to be restarted.
func (l *environment) pods(t *testing.T, component string) string {
	t.Helper()
	list, err := l.admin.Resource(pods).Namespace(home).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	require.NoError(t, err)
	var out []string
	for i := range list.Items {
		out = append(out, string(list.Items[i].GetUID()))
	}
	return strings.Join(out, " ")
}

// TestUpgrade: another version of the chart, with a value changed, upgrades the
// CRDs and replaces the Pods of the component that the value is of, and of no
// other; what is guarded stays guarded. The same once more does nothing.
func TestUpgrade(t *testing.T) {
	ns := namespace(t, "upgraded")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	components := []string{"webhook", "controller", "gate"}
	before := map[string]string{}
	for _, c := range components {
		if before[c] = the.pods(t, c); before[c] == "" {
			t.Fatalf("the Deployment of %s has no Pods", c)
		}
	}
	hook, err := the.admin.Resource(hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	upgrade := []string{"upgrade", "kausality", the.chart(), "--reuse-values", "--set", "gate.deadline=2h"}
	_, err = the.run(t.Context(), upgrade...)
	require.NoError(t, err)
	the.release = the.chart()
	wait.For(t, "new Pods of the gate", wait.Patience, func(context.Context) error {
		if now := the.pods(t, "gate"); now == before["gate"] {
			return errors.New("they are the old ones")
		}
		return nil
	})
	for _, c := range components[:2] {
		if now := the.pods(t, c); now != before[c] {
			t.Errorf("the Pods of %s were replaced: %s, before %s", c, now, before[c])
		}
	}
	crd, err := the.admin.Resource(definition).Get(t.Context(), "kausalities.kausality.io", metav1.GetOptions{})
	require.NoError(t, err)
	if versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions"); !strings.Contains(fmt.Sprint(versions), ".status.managedResources") {
		t.Error("the CRD is still that of the version before")
	}
	now, err := the.admin.Resource(hooks).Get(t.Context(), "kausality", metav1.GetOptions{})
	require.NoError(t, err)
	if now.GetUID() != hook.GetUID() {
		t.Error("the webhook configuration is another one")
	}
	the.gate.Stop()
	the.gate, err = the.start(t.Context(), "gate", 1)
	require.NoError(t, err)
	require.NoError(t, the.gate.Await(t.Context()))
	if args, err := installation.Args(t.Context(), the.admin, "gate"); err != nil || !strings.Contains(strings.Join(args, " "), "--gate-deadline=2h") {
		t.Errorf("the gate's arguments are %v, error %v", args, err)
	}
	guarded(t, ns)
	settled := the.generations(t)
	_, err = the.run(t.Context(), upgrade...)
	require.NoError(t, err)
	if again := the.generations(t); again != settled {
		t.Errorf("the same upgrade once more changed %s, before %s", again, settled)
	}
}

// generations of all Deployments.
func (l *environment) generations(t *testing.T) string {
	t.Helper()
	list, err := l.admin.Resource(deployments).Namespace(home).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	out := ""
	for i := range list.Items {
		out += fmt.Sprintf("%s %d\n", list.Items[i].GetName(), list.Items[i].GetGeneration())
	}
	return out
}

// TestService: the API server calls the webhook as the policy controller
// configured it, by its Service and under the Service's name, and trusts the
// configured bundle and no other certificate.
func TestService(t *testing.T) {
	if !the.services {
		t.Skip("nothing can listen at the address of a Service here; the webhook is called by its own")
	}
	ns := namespace(t, "service")
	policy(t, "shop", map[string]any{"mode": "enforce"})
	guarded(t, ns)
	e, err := entry(t.Context(), "shop.admission.kausality.io")
	require.NoError(t, err)
	config := e["clientConfig"].(map[string]any)
	if got := fmt.Sprint(config["service"], config["url"]); got != "map[name:kausality-webhook namespace:kausality-system path:/mutate port:443] <nil>" {
		t.Errorf("the API server is configured with %s", got)
	}
	const name = "kausality-webhook.kausality-system.svc"
	wait.For(t, "the certificate to verify for the Service", wait.Patience, func(ctx context.Context) error {
		e, err := entry(ctx, "shop.admission.kausality.io") // renewed all the time here
		if err != nil {
			return err
		}
		return handshake(ctx, the.balancer.address, e["clientConfig"].(map[string]any)["caBundle"], name)
	})
	if err := handshake(t.Context(), the.balancer.address, config["caBundle"], "another.kausality-system.svc"); err == nil {
		t.Error("the certificate verifies for another Service, too")
	}
}

// handshake with who listens at an address, as the API server does it with a
// caBundle and the name of a Service.
func handshake(ctx context.Context, address string, bundle any, name string) error {
	text, _ := bundle.(string)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw) {
		return errors.New("the caBundle holds no certificate")
	}
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// render the chart.
func (l *environment) render(ctx context.Context, args ...string) ([]*unstructured.Unstructured, error) {
	raw, err := l.run(ctx, append([]string{"template", "kausality", l.chart()}, args...)...)
	if err != nil {
		return nil, err
	}
	return controlplane.Decode(raw)
}
