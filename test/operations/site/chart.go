package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stretchr/testify/require"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/wait"
)

// Chart of the repository.
func (l *Site) Chart() string { return filepath.Join(l.Root, "package", "helm", "kausality") }

// RunHelm as the installing user. After an upgrade the installation is not as the chart has it.
func (l *Site) RunHelm(ctx context.Context, args ...string) ([]byte, error) {
	l.changed = l.changed || args[0] == "upgrade" && !slices.Contains(args, "--dry-run=server")
	return l.Helm.Run(ctx, args...)
}

// QuickServing and QuickAuthority are lifetimes of certificates.
const QuickServing, QuickAuthority = "20s", "45s"

// quick values: days become seconds. The policy for authors, which always guards something, is left to TestAuthors.
var quick = []string{
	"--set", "traceAuthors=false", "--set", "gate.creationGrace=0s", "--set", "webhook.shutdownDelay=2s", "--set", "webhook.settleGrace=1s",
	"--set", "certificates.certificateLifetime=" + QuickServing, "--set", "certificates.authorityLifetime=" + QuickAuthority,
}

// Earlier is a copy of the chart as an earlier version: its CRD has fewer fields.
func (l *Site) Earlier() (dir string, err error) {
	dir = filepath.Join(l.Dir(), "earlier-chart")
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(l.Chart()))); err != nil {
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

// Install a chart with Helm, as in docs/install.md, and start what a kubelet would
// start, with two replicas of the webhook.
func (l *Site) Install(ctx context.Context, chart string, values ...string) error {
	if err := l.reachable(); err != nil {
		return err
	}
	args, err := l.documented(chart)
	if err != nil {
		return err
	}
	args = append(append(args, quick...), values...)
	if !l.Services {
		args = append(args, "--set", "webhook.url=https://"+l.Balancer.Address)
	}
	if _, err := l.RunHelm(ctx, args...); err != nil {
		return err
	}
	l.Release, l.changed = chart, len(values) > 0
	if l.Services {
		if err := l.serve(ctx); err != nil {
			return err
		}
	}
	return l.startAll(ctx)
}

// reachable: where there is no Service, the address of the webhook is known
// before it is installed.
func (l *Site) reachable() (err error) {
	if !l.Services && l.Balancer == nil {
		l.Balancer, err = newBalancer("127.0.0.1:0")
	}
	return err
}

// serve the webhook's Service at the address that the API server gave it.
func (l *Site) serve(ctx context.Context) error {
	s, err := l.Admin.Resource(services).Namespace(Home).Get(ctx, "kausality-webhook", metav1.GetOptions{})
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
	l.Balancer, err = newBalancer(fmt.Sprintf("%s:%v", ip, ports[0].(map[string]any)["port"]))
	return err
}

func (l *Site) startAll(ctx context.Context) (err error) {
	l.Webhooks = nil
	if l.Controller, err = l.StartComponent(ctx, "controller", 0); err != nil {
		return err
	}
	for i := range 2 {
		p, err := l.StartComponent(ctx, "webhook", i)
		if err != nil {
			return err
		}
		l.Webhooks = append(l.Webhooks, p)
		l.Balancer.add(p.Address, func() bool { return p.Ready(context.Background()) == nil })
	}
	if l.Gate, err = l.StartComponent(ctx, "gate", 0); err != nil {
		return err
	}
	for _, p := range l.all() {
		if err := p.Await(ctx); err != nil {
			return err
		}
	}
	if n := len(l.absent); n > 0 {
		l.absent[n-1].to = time.Now()
	}
	return l.awaitKinds(ctx)
}

// awaitKinds until the API server admits a policy: an admission policy of the chart has a parameter of a kind that it may not have discovered yet.
func (l *Site) awaitKinds(ctx context.Context) error {
	o := Object("kausality.io/v1alpha1", "Kausality", "", "dry-run", map[string]any{"mode": "log",
		"resources": []any{map[string]any{"apiGroups": []any{"shop.example.org"}, "resources": []any{"*"}}}})
	return controlplane.Eventually(ctx, "the API server to admit a policy", wait.Patience, func(ctx context.Context) error {
		_, err := l.Admin.Resource(Kausality).Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// Own installation of a test, as the chart has it. Where an earlier test has removed it, upgraded it, left a component ended, or failed,
// it is installed again.
func (l *Site) Own(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { l.changed = l.changed || t.Failed() })
	for _, p := range l.all() {
		select {
		case <-p.Done():
			l.changed = true
		default:
		}
	}
	if l.Release != l.Chart() || l.changed {
		l.Absent(t)
		require.NoError(t, l.Install(t.Context(), l.Chart()))
	}
}

// Revive the components that ended, as a kubelet does: one that loses its leadership ends itself.
func (l *Site) Revive(ctx context.Context) error {
	for _, p := range l.all() {
		select {
		case <-p.Done():
			if err := p.Restart(); err != nil {
				return err
			}
			if err := p.Await(ctx); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

// all processes of ours.
func (l *Site) all() []*Process {
	return slices.DeleteFunc(append([]*Process{l.Controller, l.Gate}, l.Webhooks...), func(p *Process) bool { return p == nil })
}

// newColumn is what the CRD of the version before does not have.
const newColumn = "    - jsonPath: .status.managedResources\n      name: Managed\n      type: integer\n"

// Render the chart.
func (l *Site) Render(ctx context.Context, args ...string) ([]*unstructured.Unstructured, error) {
	raw, err := l.RunHelm(ctx, append([]string{"template", "kausality", l.Chart()}, args...)...)
	if err != nil {
		return nil, err
	}
	return controlplane.Decode(raw)
}

// documented arguments of helm, as docs/install.md has them for a newcomer, with
// another chart in place of the repository's.
func (l *Site) documented(chart string) ([]string, error) {
	all, err := l.Steps("docs/install.md")
	if err != nil {
		return nil, err
	}
	line := all[0].Command
	line = strings.NewReplacer("REPOSITORY", "registry.example.org/kausality", "TAG", "v0.1.0").Replace(line)
	args := strings.Fields(line)
	const path = "package/helm/kausality"
	if len(args) < 4 || strings.Join(args[:4], " ") != "helm install kausality "+path {
		return nil, fmt.Errorf("docs/install.md begins with %q", line)
	}
	args[3] = chart
	return args[1:], nil
}

// Restrict a Namespace to Pods of the Pod Security Standard "restricted", which the API
// server enforces (KR-13-42). That of the installation is, so that all Pods of these
// tests are such, those of Helm's hooks included.
func (l *Site) Restrict(ctx context.Context, ns string) error {
	o := Object("v1", "Namespace", "", ns, map[string]any{})
	o.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"})
	_, err := l.Admin.Resource(Namespaces).Apply(ctx, ns, o, metav1.ApplyOptions{FieldManager: "admin", Force: true})
	return err
}
