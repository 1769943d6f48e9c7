package gate

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/test/controlplane"
	"github.com/kausality-io/function-kausality/test/controlplane/parts"
	"github.com/kausality-io/function-kausality/test/provider/cloud/client"
	"github.com/kausality-io/function-kausality/test/undecided"
)

// environment is what all tests share.
type environment struct {
	*controlplane.ControlPlane
	bins     parts.Paths
	cloud    *client.Client
	cloudURL string
	// processes that are killed and restarted.
	webhook, gate, provider *part
	// metrics is the URL of those of the webhook.
	metrics string
	certs   string
	// records that webhook and gate have delivered.
	records *receiver
}

// part is a process with the URL of its readiness probe.
type part struct {
	*controlplane.Process
	probe string
}

var the *environment

const (
	home = "kausality-system"
	// deadline of openings: short, so that the tests see it pass.
	deadline = 20 * time.Second
)

// nothing is a rule that grants nothing: access comes from the manifests.
var nothing = rbacv1.PolicyRule{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}, Verbs: []string{"create"}}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // they mostly wait
		panic(err)
	}
	os.Exit(controlplane.Main(m, bootShared))
}

// bootShared boots what all tests share.
func bootShared(ctx context.Context) (stop func(), err error) {
	the = &environment{}
	err = the.boot(ctx)
	if the.ControlPlane != nil {
		stop = the.Stop
	}
	return stop, err
}

func (l *environment) boot(ctx context.Context) (err error) {
	l.bins, err = parts.Ensure(ctx, os.Stderr, "", parts.Kausality, parts.TestProvider)
	if err != nil {
		return err
	}
	if l.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Out: os.Stderr, Dir: os.Getenv("KAUSALITY_GATES_DIR"), AuditLog: true}); err != nil {
		return err
	}
	l.certs = filepath.Join(l.Dir(), "webhook-certs")
	l.records = newReceiver()
	for _, step := range []func(context.Context) error{l.installCRDs, l.startCloud, l.startProvider, l.startKausality, l.awaitCollector} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *environment) installCRDs(ctx context.Context) error {
	root, err := parts.Root()
	if err != nil {
		return err
	}
	for _, name := range []string{"cloud.example.org_databases.yaml", "rds.aws.crossplane.io_rdsinstances.yaml"} {
		raw, err := os.ReadFile(filepath.Join(root, "test", "provider", "crds", name))
		if err != nil {
			return err
		}
		if err := l.Apply(ctx, raw); err != nil {
			return err
		}
	}
	return l.Define(ctx, kinds...)
}

func (l *environment) startCloud(ctx context.Context) error {
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	l.cloudURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if _, err := l.Serve(ctx, "cloud", exec.Command(l.bins["test-provider"], "cloud", fmt.Sprintf("--address=127.0.0.1:%d", port))); err != nil {
		return err
	}
	l.cloud = client.New(l.cloudURL)
	return controlplane.Eventually(ctx, "the cloud to answer", 20*time.Second, l.cloud.Healthy)
}

func (l *environment) startProvider(ctx context.Context) error {
	kubeconfig, err := l.ServiceAccountKubeconfig(ctx, "crossplane-system", "provider-cloud")
	if err != nil {
		return err
	}
	l.provider, err = l.start(ctx, "provider", "test-provider", "run", "--kubeconfig="+kubeconfig, "--cloud-url="+l.cloudURL,
		"--poll-interval=1s", "--creation-grace-period=0s", "--max-requeue-delay=1s", "--max-reconcile-rate=100", "--debug")
	return err
}

// startKausality as a user installs it.
func (l *environment) startKausality(ctx context.Context) error {
	if err := l.CA().ServingCert(l.certs); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, l.bins["kausality"], "manifests", fmt.Sprintf("--webhook-url=https://127.0.0.1:%d", port),
		"--ca-file="+filepath.Join(l.certs, "ca.crt"), "--resources=*.example.org,*.cloud.example.org,*.other.example.org", "--default-mode=enforce").Output()
	if err != nil {
		return fmt.Errorf("cannot run kausality manifests: %w", err)
	}
	if err := l.Apply(ctx, out); err != nil {
		return err
	}
	users := map[string]string{}
	for _, name := range []string{"webhook", "gate"} {
		if users[name], err = l.ServiceAccountKubeconfig(ctx, home, "kausality-"+name, nothing); err != nil {
			return err
		}
	}
	metrics, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	l.metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics)
	l.webhook, err = l.start(ctx, "webhook", "kausality", "webhook", "--kubeconfig="+users["webhook"], "--default-mode=enforce", "--cert-dir="+l.certs,
		fmt.Sprintf("--bind-address=127.0.0.1:%d", port), "--settle-grace=1s", "--shutdown-delay=0s", "--ignore-external="+ignored,
		"--record-spool-dir="+filepath.Join(l.Dir(), "records-webhook"), l.records.flag(), "--cluster-name=test",
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics))
	if err != nil {
		return err
	}
	l.gate, err = l.start(ctx, "gate", "kausality", "gate", "--kubeconfig="+users["gate"], "--default-mode=enforce",
		"--gate-deadline="+deadline.String(), "--creation-grace=0s", "--ignore-external="+ignored,
		"--record-spool-dir="+filepath.Join(l.Dir(), "records-gate"), l.records.flag(), "--cluster-name=test")
	return err
}

// ignored differences: a tag that another controller sets.
const ignored = "Database.cloud.example.org:spec.forProvider.tags[ignored]"

func (l *environment) start(ctx context.Context, name, bin string, args ...string) (*part, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	p := &part{probe: fmt.Sprintf("http://127.0.0.1:%d/readyz", port)}
	cmd := exec.Command(l.bins[bin], append(args, fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", port))...)
	if bin == "test-provider" {
		cmd.Args[0] = "provider" // its field manager, as in a cluster
	}
	if p.Process, err = l.Run(ctx, name, cmd); err != nil {
		return nil, err
	}
	return p, p.ready(ctx)
}

// revive a part, as a kubelet does: one that came up while the API server was
// down has ended.
func (p *part) revive(ctx context.Context) error {
	for range 5 {
		if p.ready(ctx) == nil {
			return nil
		}
		if err := p.Restart(); err != nil {
			return err
		}
	}
	return p.ready(ctx)
}

func (p *part) ready(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return controlplane.Eventually(ctx, p.Name()+" to be ready", 90*time.Second, func(ctx context.Context) error {
		if p.Err() != nil {
			cancel()
			return p.Err()
		}
		return controlplane.Answers(ctx, p.probe)
	})
}

// as is a client that is a user; its field manager is the last part of its name.
func (l *environment) as(t testing.TB, user string) dynamic.Interface {
	t.Helper()
	config := l.ConfigAsMaster(user)
	config.Wrap(undecided.Transport)
	c, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return c
}
